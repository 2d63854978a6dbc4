// What npm packs of the client (G14).

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { cp, mkdtemp, readFile, rm, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { before, after, test } from "node:test";
import { promisify } from "node:util";

const run = promisify(execFile);
const root = new URL("../../../", import.meta.url).pathname;
let copy;
let packed;

// A fresh checkout: nothing is generated.
before(async () => {
  copy = await mkdtemp(join(tmpdir(), "stampede-client-"));
  const left = /clients\/js\/(node_modules|types|LICENSE|.*\.tgz)$/;
  for (const path of ["LICENSE", "static/openapi.json", "clients/js"]) {
    await cp(join(root, path), join(copy, path), { recursive: true, filter: (source) => !left.test(source) });
  }
  await symlink(join(root, "clients/js/node_modules"), join(copy, "clients/js/node_modules"));
  const { stdout } = await run("npm", ["pack", "--json", "--silent"], { cwd: join(copy, "clients/js") });
  [packed] = JSON.parse(stdout);
});
after(() => rm(copy, { recursive: true, force: true }));

test("the package has the modules, their types and the licence, and nothing else", () => {
  const paths = packed.files.map(({ path }) => path);
  for (const file of ["LICENSE", "package.json", "README.md", "src/index.js", "types/index.d.ts", "types/api.d.ts"]) {
    assert.ok(paths.includes(file), file);
  }
  assert.deepEqual(paths.filter((path) => !/^(LICENSE|package\.json|README\.md|src\/[\w/]+\.js|types\/[\w/]+\.d\.ts)$/.test(path)), []);
});

test("its types are those of buyers, and nothing in them is any", async () => {
  const types = join(copy, "clients/js/types");
  const api = await readFile(join(types, "api.d.ts"), "utf8");
  assert.match(api, /"\/api\/orders\/\{order_no\}"/);
  assert.doesNotMatch(api, /\/api\/admin|\/metrics|ExportedOrder/);
  for (const { path } of packed.files.filter(({ path }) => path.startsWith("types/"))) {
    const text = (await readFile(join(copy, "clients/js", path), "utf8")).replace(/\/\*[^]*?\*\//g, "");
    assert.doesNotMatch(text, /\bany\b/, path);
  }
});

test("publint and attw find nothing", async () => {
  const bin = new URL("../node_modules/.bin/", import.meta.url).pathname;
  const archive = join(copy, "clients/js", packed.filename);
  const { stdout } = await run(`${bin}publint`, [archive, "--strict"]);
  assert.match(stdout, /All good!/);
  await run(`${bin}attw`, [archive, "--profile", "esm-only"]);
});
