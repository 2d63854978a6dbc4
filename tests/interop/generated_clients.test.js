// Clients that generators make from the OpenAPI document buy a unit each (G11).

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";

import { publish, signIn, untilOrder, variable } from "./support/app.js";

const run = promisify(execFile);
const DOCUMENT = "../../static/openapi.json";

/** Publishes a sale and lets `buy(environment)` buy in it, which prints the order's number and a refusal's code. */
async function sellTo(buy) {
  const [{ id }, buyer] = [await publish({ per_user: 1 }), await signIn()];
  const env = { ...process.env, APP: variable("URL").replace(/\/$/, ""), SALE: id, TOKEN: buyer.token };
  const { stdout } = await buy(env);
  const [order, code] = stdout.trim().split(" ");
  assert.equal(code, "limit_reached");
  await untilOrder(order, "pending_payment", buyer);
}

test("a client that openapi-python-client made buys", { timeout: 120_000 }, async (context) => {
  const folder = await mkdtemp(join(tmpdir(), "stampede-client-"));
  context.after(() => rm(folder, { recursive: true }));
  const generate = ["-m", "openapi_python_client", "generate", "--path", DOCUMENT, "--meta", "none", "--config", "support/generated_client.yaml"];
  const { stdout, stderr } = await run(process.env.PYTHON, [...generate, "--output-path", join(folder, "stampede")]);
  assert.doesNotMatch(stdout + stderr, /WARNING parsing|Unable to process/);
  await sellTo((env) => run(process.env.PYTHON, ["support/generated_client.py"], { env: { ...env, PYTHONPATH: folder } }));
});

test("a client with the types of openapi-typescript buys", { timeout: 120_000 }, async () => {
  await run("npm", ["run", "--silent", "types"]);
  await sellTo((env) => run(process.execPath, ["support/typed_client.js"], { env }));
});
