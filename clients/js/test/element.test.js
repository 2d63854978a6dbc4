// What `<stampede-buy>` has besides its story in browsers (G13).

import assert from "node:assert/strict";
import { pbkdf2Sync } from "node:crypto";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import { transform } from "esbuild";
import { Problem } from "@stampede/client";
import { StampedeBuy } from "@stampede/client/element";
import { contentOf } from "../src/element/content.js";
import { TEXTS } from "../src/element/texts.js";
import { solveWork } from "../src/work.js";

const read = (path) => readFile(new URL(`../${path}`, import.meta.url), "utf8");
const all = (text, pattern) => [...text.matchAll(pattern)].map(([, name]) => name);

/** The recipe of docs/frontend.md in this language. */
const recipe = async (language) => new RegExp(`\`\`\`${language}\n([^]*?)\`\`\``).exec(await read("../../docs/frontend.md"))[1];

/** What a page may set. */
const attributes = [...StampedeBuy.observedAttributes, "sign-in-url"];
const properties = all((await read("types/element.d.ts")).split("\nexport type")[0], /^    (\w+): /gm);
const events = [...new Set(all(await read("src/element/run.js"), /#send\("([\w-]+)"/g))];

test("the recipes set what the element has", async () => {
  assert.deepEqual([properties, events], [["token", "solveCheck"], ["sign-in", "waiting", "accepted", "refused", "paid"]]);
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

test("each state has its button", () => {
  const sku = { sku: "a", name: "A", price: 1_999, currency: "EUR" };
  const sale = { id: "demo", checkout: "none", pay_timeout_seconds: 300, starts_at: "2030-01-01T00:00:00.000Z", skus: [sku] };
  const facts = {
    language: "en", sale, sku, quantity: 1, phase: "open", isSoldOut: false, untilStart: 0, untilEnd: 0, untilPay: 0, base: "https://sale.example",
    buyer: "signed_in", signInUrl: null, progress: null, error: null, isUnknown: false, order: null, isOpening: false,
  };
  const order = (status, more) => ({ order: { order_no: "demo.1", status, amount: 1_999, currency: "EUR", ahead: 0, ...more } });
  const refused = (code) => ({ error: new Problem({ status: 409, code, amount: 2_500, currency: "EUR" }) });
  const line = (left) => ({ sale: { ...sale, line: { mode: "waitlist", offer_seconds: 300 } }, sku: { ...sku, left, waiting: 2 } });
  const free = { sku: { ...sku, price: 0 } };
  for (const [changes, state, label, way, note] of [
    [{}, "open", "Buy · €19.99", "buy", "5 minutes to pay after you tap"],
    [{ quantity: 2 }, "open", "Buy · €39.98", "buy", "5 minutes to pay after you tap"],
    [free, "open", "Buy · Free", "buy", "5 minutes to confirm after you tap"],
    [{ phase: "paused" }, "paused", "Paused", undefined, TEXTS.en.goes_on],
    [{ phase: "ended" }, "ended", "Ended", undefined, TEXTS.en.over],
    [{ phase: "scheduled", buyer: "signed_out" }, "before", TEXTS.en.take_part, "sign_in", TEXTS.en.before],
    [{ phase: "scheduled", buyer: "elsewhere" }, "before", TEXTS.en.go, "https://sale.example/sale?activity=demo", TEXTS.en.before_elsewhere],
    [{ sku: undefined }, "missing", TEXTS.en.unavailable, undefined, TEXTS.en.missing],
    [{ sale: null, sku: undefined, ...refused("not_found") }, "missing", TEXTS.en.unavailable, undefined, TEXTS.en.missing],
    [refused("price_changed"), "refused", "Buy · €19.99", "buy", "The price has changed: it is now €25.00. Nothing was ordered yet."],
    [refused("not_eligible"), "refused", TEXTS.en.orders, "https://sale.example/orders", "This drop is not open to this account."],
    [line(0), "waitlist", TEXTS.en.join, "buy", "When a unit comes back, it goes to the first in line; you then have 5 minutes to pay."],
    [line(3), "open", "Buy · €19.99", "buy", "5 minutes to pay after you tap. What comes back later goes to the first on the waitlist."],
    [{ ...line(0), quantity: 2 }, "sold-out", TEXTS.en.sold_out, undefined, TEXTS.en.one_only],
    [{ ...line(0), isSoldOut: true }, "sold-out", TEXTS.en.sold_out, undefined, TEXTS.en.line_full],
    [{ isSoldOut: true }, "sold-out", TEXTS.en.sold_out, undefined, TEXTS.en.comes_back],
    [order("waiting", { ahead: 7 }), "waiting", TEXTS.en.place, "https://sale.example/order?order_no=demo.1", "You are on the waitlist. People ahead of you: 7"],
    [order("waiting"), "waiting", TEXTS.en.place, "https://sale.example/order?order_no=demo.1", TEXTS.en.first],
    [order("waiting", { ahead: undefined }), "waiting", TEXTS.en.place, "https://sale.example/order?order_no=demo.1", TEXTS.en.place_kept],
    [{ isUnknown: true }, "unknown", TEXTS.en.orders, "https://sale.example/orders", TEXTS.en.unknown],
    [order("pending_payment", { declined_at: "2030-01-01T00:00:00.000Z" }), "pay", TEXTS.en.pay, "pay", TEXTS.en.declined],
    [order("pending_payment", { amount: 0 }), "pay", TEXTS.en.confirm, "pay", TEXTS.en.yours_free],
    [order("expired"), "closed", "Buy · €19.99", "buy", TEXTS.en.expired],
    [{ ...order("expired", { reason: "sale_ended" }), phase: "ended" }, "ended", "Ended", undefined, TEXTS.en.sale_ended],
    ...["left_line", "removed_by_operator", "banned", "limit_reached"].map((reason) =>
      [order("cancelled", { reason }), "closed", "Buy · €19.99", "buy", TEXTS.en[reason]]),
    [order("cancelled", { reason: "cancelled_by_buyer" }), "closed", "Buy · €19.99", "buy", TEXTS.en.cancelled],
  ]) {
    const content = contentOf({ ...facts, ...changes });
    assert.deepEqual([content.state, content.label, content.href ?? content.action, content.note], [state, label, way, note]);
  }
});

test("a proof of work is solved", async () => {
  const parameters = { algorithm: "PBKDF2/SHA-256", nonce: "00ff".repeat(8), salt: "a1".repeat(16), cost: 10, keyLength: 32 };
  const password = Buffer.concat([Buffer.from(parameters.nonce, "hex"), Buffer.from([0, 0, 1, 44])]);
  const derivedKey = pbkdf2Sync(password, Buffer.from(parameters.salt, "hex"), 10, 32, "sha256").toString("hex");
  const challenge = { parameters: { ...parameters, keyPrefix: derivedKey.slice(0, 32) }, signature: "s" };
  const { challenge: sent, solution } = JSON.parse(atob(await solveWork(challenge)));
  assert.deepEqual([sent, solution.counter, solution.derivedKey], [challenge, 300, derivedKey]);
});
