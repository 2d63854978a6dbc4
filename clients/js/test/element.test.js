// What `<stampede-buy>` has besides its story in browsers (G13).

import assert from "node:assert/strict";
import { pbkdf2Sync } from "node:crypto";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import { transform } from "esbuild";
import { StampedeBuy } from "@stampede/client/element";
import { TEXTS } from "../src/element/texts.js";
import { solveWork } from "../src/work.js";

const read = (path) => readFile(new URL(`../${path}`, import.meta.url), "utf8");
const all = (text, pattern) => [...text.matchAll(pattern)].map(([, name]) => name);

/** The recipe of docs/frontend.md in this language. */
const recipe = async (language) => new RegExp(`\`\`\`${language}\n([^]*?)\`\`\``).exec(await read("../../docs/frontend.md"))[1];

/** What a page may set. */
const attributes = [...StampedeBuy.observedAttributes, "sign-in-url"];
const properties = all((await read("types/element.d.ts")).split("\nexport type")[0], /^    (\w+): /gm);
const events = all(await read("src/element/run.js"), /#send\("([\w-]+)"/g);

test("the recipes set what the element has", async () => {
  assert.deepEqual([properties, events], [["token", "solveCheck"], ["sign-in", "accepted", "refused", "paid"]]);
  const code = (await recipe("jsx")).replace(/^import.*/m, "");
  const { code: script } = await transform(code, { loader: "jsx", jsxFactory: "create" });
  globalThis.create = (tag, props) => ({ tag, props });
  const { Buy } = await import(`data:text/javascript,${encodeURIComponent(script)}`);
  let paid;
  const { tag, props } = Buy({ activity: "demo", sku: "camera", token: () => null, onPaid: (order) => (paid = order) });
  assert.equal(tag, "stampede-buy");
  for (const name of Object.keys(props)) assert.ok([...attributes, ...properties, ...events.map((event) => `on${event}`)].includes(name), name);
  props.onpaid({ detail: { order: "an order" } });
  assert.equal(paid, "an order");
  const vue = (await recipe("vue")).split("<stampede-buy")[1];
  assert.ok(all(vue, /\s:?([\w-]+)="/g).length >= 3);
  for (const name of all(vue, /\s:?([\w-]+)="/g)) assert.ok(attributes.includes(name), name);
  for (const name of all(vue, /:(\w+)\.prop=/g)) assert.ok(properties.includes(name), name);
  for (const name of all(vue, /@([\w-]+)=/g)) assert.ok(events.includes(name), name);
  for (const language of ["jsx", "vue"]) assert.ok((await recipe(language)).trim().split("\n").length <= 12, language);
});

test("the documents name every state, and each has its texts in both languages", async () => {
  const states = all((await read("types/element/content.d.ts")).match(/type State = (.*);/)[1], /"([\w-]+)"/g);
  const slots = (await read("../../docs/frontend.md")).match(/\| slots \|(.*)/)[1];
  for (const slot of all(slots, /`([\w-]+)`/g)) assert.ok([...states, "pay-link"].includes(slot), slot);
  const placeholders = (text) => all(text, /(\{\w+\})/g);
  for (const [name, text] of Object.entries(TEXTS.en)) assert.deepEqual(placeholders(TEXTS.zh[name]), placeholders(text), name);
});

test("a proof of work is solved", async () => {
  const parameters = { algorithm: "PBKDF2/SHA-256", nonce: "00ff".repeat(8), salt: "a1".repeat(16), cost: 10, keyLength: 32 };
  const password = Buffer.concat([Buffer.from(parameters.nonce, "hex"), Buffer.from([0, 0, 1, 44])]);
  const derivedKey = pbkdf2Sync(password, Buffer.from(parameters.salt, "hex"), 10, 32, "sha256").toString("hex");
  const challenge = { parameters: { ...parameters, keyPrefix: derivedKey.slice(0, 32) }, signature: "s" };
  const { challenge: sent, solution } = JSON.parse(atob(await solveWork(challenge)));
  assert.deepEqual([sent, solution.counter, solution.derivedKey], [challenge, 300, derivedKey]);
});
