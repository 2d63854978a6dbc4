// What the client does for pages (G14): loops, hidden pages, reloads and texts.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Aborted, Problem, Unreachable, createClient } from "@stampede/client";
import { TICKET, ORDER, problem, fakeFetch, gate, open, simulate } from "./support.js";

test("a loop over an order gets each change, ends by itself, and throws what ends it", async (context) => {
  const seen = [];
  const watch = async (client, options) => {
    for await (const { status } of client.watchOrder("demo.1", options)) seen.push(status);
  };
  const answers = ["queued", "queued", "pending_payment", "paid"];
  const { client, requests } = open({
    "demo.1": (_, calls) => (calls === 1 ? new Response(null, { status: 304 }) : { ...ORDER, status: answers[calls] }),
  });
  await simulate(context, () => watch(client));
  assert.deepEqual([seen.splice(0), requests.length], [["queued", "pending_payment", "paid"], 4]);
  await assert.rejects(simulate(context, () => watch(open({ "demo.1": () => problem(404, "not_found") }).client)), { code: "not_found" });
  const controller = new AbortController();
  const { client: aborted } = open({ "demo.1": () => (controller.abort(), ORDER) });
  await assert.rejects(simulate(context, () => watch(aborted, { signal: controller.signal })), Aborted);
});

test("an order is no longer polled some minutes after nothing can change, unless a late payment changed it", async (context) => {
  for (const [late, end] of [["paid", "paid"], ["expired", "expired"]]) {
    const start = Date.now();
    const { client, requests } = open({ "demo.1": (_, calls) => ({ ...ORDER, status: calls < 3 ? "expired" : late }) });
    const seen = [];
    await simulate(context, async () => {
      for await (const { status } of client.watchOrder("demo.1")) seen.push(status);
    });
    assert.equal(seen.at(-1), end);
    assert.ok(requests.length < 25, `${requests.length} polls`);
    assert.ok(requests.at(-1).at - requests[0].at >= (late === "paid" ? 30_000 : 300_000), `${start}`);
  }
});

test("a hidden page does not poll, except for an attempt, and polls when it is shown", async (context) => {
  const document = (globalThis.document = Object.assign(new EventTarget(), { hidden: true }));
  context.after(() => delete globalThis.document);
  context.mock.timers.enable({ apis: ["setTimeout", "Date"] });
  const pass = async (seconds) => {
    for (let tenths = 0; tenths < seconds * 10; tenths += 1) {
      for (let turns = 0; turns < 30; turns += 1) await new Promise(setImmediate);
      context.mock.timers.tick(100);
    }
  };
  let phase = "paused";
  const { client, requests } = open({ "gate.json": () => gate({ phase, start_key: phase === "open" ? "k" : undefined }), "demo.1": () => ORDER, orders: () => ORDER });
  const poller = client.pollOrder("demo.1");
  const watched = client.watchGate("demo");
  await pass(10);
  assert.deepEqual(requests.map(({ name }) => name), ["demo.1", "gate.json"]);
  document.hidden = false;
  document.dispatchEvent(new Event("visibilitychange"));
  await pass(0.1);
  assert.deepEqual(requests.slice(2).map(({ name }) => name), ["demo.1", "gate.json"]);
  document.hidden = true;
  await pass(10);
  const attempt = client.buy("demo", { sku: "a", gate: watched });
  phase = "open";
  await pass(10);
  assert.equal((await attempt).kind, "accepted");
  const { length } = requests;
  [poller, watched].forEach(({ stop }) => stop());
  document.hidden = false;
  document.dispatchEvent(new Event("visibilitychange"));
  await pass(1);
  assert.equal(requests.length, length);
});

test("a hidden page polls an order that waits in the line, as Retry-After says, until it can be paid", async (context) => {
  globalThis.document = Object.assign(new EventTarget(), { hidden: true });
  context.after(() => delete globalThis.document);
  const statuses = ["waiting", "waiting", "queued", "pending_payment"];
  const { client, requests } = open({
    "demo.1": (_, calls) => new Response(JSON.stringify({ ...ORDER, status: statuses[calls] }), { headers: { "retry-after": calls < 2 ? "20" : "1" } }),
  });
  const seen = [];
  await simulate(context, async () => {
    for await (const { status } of client.watchOrder("demo.1")) {
      seen.push(status);
      if (status === "pending_payment") break;
    }
  });
  assert.deepEqual(seen, statuses);
  const [first, second, third, last] = requests.map(({ at }) => Math.floor((at - requests[0].at) / 1_000));
  assert.deepEqual([first, second, third, last].map((second) => Math.round(second / 10) * 10), [0, 20, 40, 40]);
});

/** A storage, and the tokens of two users. */
const memory = (values = new Map()) => ({
  getItem: (key) => values.get(key) ?? null, setItem: (key, value) => values.set(key, value), removeItem: (key) => values.delete(key),
});
const tokenOf = (user) => `x.${btoa(JSON.stringify({ sub: user }))}.x`;

test("after a reload the attempt goes on with the same ticket, and the order that it made is found", async (context) => {
  const storage = memory();
  let tickets = 0;
  let isLost = true;
  let isForgotten = false;
  let status = "pending_payment";
  const { fetch, requests } = fakeFetch({
    "gate.json": () => gate(),
    ticket: () => ({ ...TICKET, ticket: `t-${(tickets += 1)}` }),
    orders: () => (isLost ? Promise.reject(new TypeError("offline")) : ORDER),
    "demo.1": () => (isLost || isForgotten ? problem(404, "not_found") : { ...ORDER, status }),
  });
  /** A page that was loaded just now. */
  const load = (user = "mia") => {
    const client = createClient({ baseUrl: "https://sale.example", token: () => tokenOf(user), fetch, now: () => Date.now() });
    return { client, tickets: client.keepTicket("demo", { storage }) };
  };
  assert.equal(await load().client.resume("demo", { storage }), null);
  // This page is left while it buys.
  const left = load();
  const never = new Promise(() => {});
  const onStep = ({ step }) => step === "waiting" && left.reached();
  await new Promise((resolve) => {
    left.reached = resolve;
    void left.client.buy("demo", { sku: "a", quantity: 2, amount: 20, ...left.tickets, onStep, gate: { startKey: async () => (left.done ? never : ((left.done = true), "k")) } });
  });
  isLost = false;
  assert.equal(await load("leo").client.resume("demo", { storage }), null, "another user");
  const page = load();
  const outcome = await simulate(context, () => page.client.resume("demo", page.tickets));
  assert.deepEqual([outcome.kind, outcome.order], ["accepted", ORDER]);
  const orders = () => requests.filter(({ name }) => name === "orders").map(({ body }) => body);
  assert.deepEqual(orders().map(({ sku, quantity, amount, ticket }) => [sku, quantity, amount, ticket]), Array(2).fill(["a", 2, 20, "t-1"]));
  const again = await load().client.resume("demo", { storage });
  assert.deepEqual([again.kind, again.order.status, again.ticket.ticket], ["accepted", "pending_payment", "t-1"]);
  // A failover lost it.
  isForgotten = true;
  const found = await simulate(context, () => load().client.resume("demo", { storage }));
  assert.deepEqual([found.kind, orders().at(-1).ticket, orders().length], ["accepted", "t-1", 3]);
  isForgotten = false;
  status = "waiting";
  assert.equal((await load().client.resume("demo", { storage })).kind, "waiting");
  // What is over is not resumed.
  status = "paid";
  assert.equal(await load().client.resume("demo", { storage }), null);
  assert.equal(JSON.parse(storage.getItem("stampede.attempt.demo")).ticket.wanted, undefined);
});

test("a buyer who has left the line joins it again in the same tab, with another ticket", async () => {
  const storage = memory();
  let status = "waiting";
  const { client, requests } = open({
    ticket: (_, calls) => ({ ...TICKET, ticket: `t-${calls + 1}` }),
    orders: ({ ticket }) => ({ ...ORDER, status: ticket === "t-1" ? status : "waiting" }),
  });
  const tickets = client.keepTicket("demo", { storage });
  for (const ticket of ["t-1", "t-2"]) {
    const outcome = await client.buy("demo", { sku: "a", ...tickets });
    assert.deepEqual([outcome.kind, outcome.ticket.ticket], ["waiting", ticket]);
    status = "cancelled";
  }
  assert.equal(requests.filter(({ name }) => name === "orders").length, 2);
});

test("a wait is found after every reload, although the page requests a ticket first, and ends with one ticket requested", async () => {
  const storage = memory();
  let status = "waiting";
  const { client, requests } = open({
    ticket: (_, calls) => ({ ...TICKET, ticket: `t-${calls + 1}` }), orders: () => ({ ...ORDER, status }), "demo.1": () => ({ ...ORDER, status }),
  });
  assert.equal((await client.buy("demo", { sku: "a", ...client.keepTicket("demo", { storage }) })).kind, "waiting");
  const reload = async () => {
    const tickets = client.keepTicket("demo", { storage });
    const [{ ticket }, outcome] = await Promise.all([tickets.obtainTicket(), client.resume("demo", tickets)]);
    return [ticket, outcome?.kind, tickets];
  };
  for (const ticket of ["t-2", "t-3"]) assert.deepEqual((await reload()).slice(0, 2), [ticket, "waiting"]);
  status = "cancelled";
  const [ticket, outcome, tickets] = await reload();
  assert.deepEqual([ticket, outcome, (await tickets.obtainTicket()).ticket], ["t-4", undefined, "t-4"]);
  assert.equal(await client.resume("demo", { storage }), null);
  assert.equal(requests.filter(({ name }) => name === "ticket").length, 4);
});

test("a refused attempt is not resumed, and its ticket serves the next one", async () => {
  const storage = memory();
  const { client, requests } = open({ orders: (_, calls) => (calls ? ORDER : problem(409, "sold_out")) });
  const buy = () => client.buy("demo", { sku: "a", ...client.keepTicket("demo", { storage }) });
  assert.equal((await buy()).kind, "refused");
  assert.equal(await client.resume("demo", { storage }), null);
  assert.equal((await buy()).kind, "accepted");
  assert.equal(requests.filter(({ name }) => name === "ticket").length, 1);
});

test("a code and an error are explained in the buyer's language", () => {
  const { client } = open({});
  assert.equal(client.explain("sold_out", "zh-CN"), "手慢了，已售罄。");
  assert.equal(client.explain("sold_out", "fr"), client.explain("sold_out"));
  const error = new Problem({ status: 409, code: "price_changed", amount: 2_500, currency: "EUR" });
  assert.match(client.explain(error, "en"), /€25\.00/);
  assert.match(client.explain(new Problem({ status: 409, code: "insufficient_stock", left: 1 }), "en"), /Only 1 left/);
  assert.equal(client.explain(new Problem({ status: 418, code: "new_code", detail: "Why." })), "Why.");
  assert.match(client.explain(new Unreachable()), /No connection/);
  assert.equal(client.explain(new TypeError("a bug")), client.explain("internal"));
});
