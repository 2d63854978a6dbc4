// The client (G14) against a `fetch` that answers as a server would.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import {
  Aborted, Problem, Unreachable, bestLanguage, createClient, currencyDecimals, formatMoney, isTransient,
} from "@stampede/client";

const START = Date.parse("2030-01-01T00:00:00Z");
const TICKET = { ticket: "t-1", order_no: "demo.1", expires_at: "2030-01-01T00:10:00Z" };
const ORDER = { order_no: "demo.1", status: "queued" };
const problem = (status, code, headers) => new Response(JSON.stringify({ code }), { status, headers });

/** Answers requests by the last part of their path. A handler gets the body and how often it was called before. */
function fakeFetch(handlers) {
  const requests = [];
  const fetch = async (url, { method, body, headers, keepalive }) => {
    const { pathname, search } = new URL(url);
    const name = pathname.split("/").at(-1);
    const calls = requests.filter((request) => request.name === name).length;
    requests.push({ name, search, method, headers, keepalive, body: body && JSON.parse(body), at: Date.now() });
    const answer = await handlers[name](body && JSON.parse(body), calls);
    return answer instanceof Response ? answer : new Response(JSON.stringify(answer));
  };
  return { fetch, requests };
}

const gate = (fields) => ({
  phase: "open", start_key: "k", sold_out: [], version: 1, jitter_ms: 0,
  server_time: new Date(START).toISOString(), starts_at: new Date(START).toISOString(), ...fields,
});

const open = (handlers) => {
  const { fetch, requests } = fakeFetch({ "gate.json": () => gate(), ticket: () => TICKET, ...handlers });
  return { client: createClient({ baseUrl: "https://sale.example/", token: () => "jwt", fetch, now: () => Date.now() }), requests };
};

/** Resolves to what `attempt` does, while timers wait in simulated time only. */
async function simulate(context, attempt) {
  context.mock.timers.enable({ apis: ["setTimeout", "Date"] });
  let isSettled = false;
  const settle = () => (isSettled = true);
  const running = attempt();
  running.then(settle, settle);
  while (!isSettled) {
    for (let turns = 0; turns < 30; turns += 1) await new Promise(setImmediate);
    context.mock.timers.tick(100);
  }
  context.mock.timers.reset();
  return running;
}

/** Answers the first reservation not at all, and the others with this refusal. */
const refuseAfterSilence = (code, status = 409) => (_, calls) => {
  if (calls === 0) throw new TypeError("connection lost");
  return problem(status, code);
};
const lookups = (requests) => requests.filter(({ name }) => name === "demo.1");

test("a text is chosen by its language as the server chooses it", () => {
  const vectors = JSON.parse(readFileSync(new URL("../../../tests/languages.json", import.meta.url), "utf8"));
  for (const [wanted, tags, best] of vectors) assert.equal(bestLanguage(wanted, tags) ?? null, best, `${wanted} of ${tags}`);
});

test("a lost answer is asked for with the same ticket", async () => {
  const { client, requests } = open({
    orders: (_, calls) => {
      if (calls === 0) throw new TypeError("connection lost");
      return ORDER;
    },
  });
  // Each call would get another ticket.
  let tickets = 0;
  const obtainTicket = async () => ({ ...TICKET, ticket: `t-${(tickets += 1)}` });
  const outcome = await client.buy("demo", { sku: "a", obtainTicket });
  assert.deepEqual([outcome.kind, outcome.order, outcome.ticket.ticket], ["accepted", ORDER, "t-1"]);
  const orders = requests.filter(({ name }) => name === "orders");
  assert.deepEqual(orders.map(({ body }) => body.ticket), ["t-1", "t-1"]);
});

test("a reservation carries what the buyer was shown, and a refusal says what is left or what it costs", async () => {
  for (const members of [{ code: "price_changed", amount: 2_500, currency: "EUR" }, { code: "insufficient_stock", left: 1 }]) {
    const { client, requests } = open({ orders: () => new Response(JSON.stringify(members), { status: 409 }) });
    const { kind, error } = await client.buy("demo", { sku: "a", quantity: 2, amount: 2_000 });
    assert.equal(kind, "refused");
    assert.deepEqual(Object.keys(members).map((name) => error[name]), Object.values(members));
    assert.equal(requests.find(({ name }) => name === "orders").body.amount, 2_000);
  }
});

test("a try without an answer is repeated when the device is online again; Retry-After is obeyed", async (context) => {
  const window = new EventTarget();
  for (const name of ["addEventListener", "removeEventListener"]) {
    globalThis[name] = window[name].bind(window);
    context.after(() => delete globalThis[name]);
  }
  context.mock.timers.enable({ apis: ["setTimeout"] });
  const failures = [() => Promise.reject(new TypeError("offline")), () => problem(503, "overloaded", { "retry-after": "60" })];
  const { client, requests } = open({ orders: (_, calls) => failures[calls]?.() ?? ORDER });
  const waits = [];
  const onStep = ({ step, error }) => {
    if (step !== "waiting") return;
    waits.push(error.code ?? "unreachable");
    setImmediate(() => window.dispatchEvent(new Event("online")));
  };
  const attempt = client.buy("demo", { sku: "a", onStep });
  for (let turns = 0; turns < 1_000; turns += 1) await new Promise(setImmediate);
  assert.equal(requests.filter(({ name }) => name === "orders").length, 2);
  context.mock.timers.tick(61_000);
  assert.equal((await attempt).kind, "accepted");
  assert.deepEqual(waits, ["unreachable", "overloaded"]);
});

test("an order whose answers are all lost is found by the number in the ticket", async () => {
  const { client } = open({
    orders: (_, calls) => {
      if (calls === 0) throw new TypeError("connection lost");
      return problem(401, "ticket_invalid");
    },
    "demo.1": () => ORDER,
  });
  const outcome = await client.buy("demo", { sku: "a" });
  assert.deepEqual([outcome.kind, outcome.order], ["accepted", ORDER]);
});

test("a refusal after a try without an answer is not believed before the order was looked up", async (context) => {
  for (const code of ["sold_out", "limit_reached"]) {
    const { client, requests } = open({
      orders: refuseAfterSilence(code),
      "demo.1": (_, calls) => (calls < 2 ? problem(404, "not_found") : ORDER),
    });
    const outcome = await simulate(context, () => client.buy("demo", { sku: "a" }));
    assert.deepEqual([outcome.kind, outcome.order], ["accepted", ORDER], code);
    assert.deepEqual(lookups(requests).map(({ search, headers }) => [search, headers.authorization]), Array(3).fill(["", "Bearer t-1"]));
  }
});

test("only a 404 ten seconds after the last try without an answer ends as refused, and no other ticket is taken before", async (context) => {
  for (const [code, status, dropped] of [["sold_out", 409, 0], ["ticket_invalid", 401, 1], ["ticket_conflict", 422, 1]]) {
    const { client, requests } = open({ orders: refuseAfterSilence(code, status), "demo.1": () => problem(404, "not_found") });
    const [drops, steps] = [[], []];
    const dropTicket = () => drops.push(lookups(requests).length);
    const options = { sku: "a", obtainTicket: async () => ({ ...TICKET }), dropTicket, onStep: ({ step }) => steps.push(step) };
    const outcome = await simulate(context, () => client.buy("demo", options));
    assert.deepEqual([outcome.kind, outcome.error?.code], ["refused", code]);
    const unanswered = requests.find(({ name }) => name === "orders");
    const looks = lookups(requests).map(({ search, at }) => ({ search, after: at - unanswered.at }));
    const last = looks.pop();
    assert.ok(last.search === "?last=true" && last.after >= 10_000 && last.after < 12_000, JSON.stringify(last));
    assert.ok(looks.every(({ search, after }) => search === "" && after < 10_000), JSON.stringify(looks));
    assert.ok(looks.length >= 3 && looks.length <= 10, `${looks.length} looks`);
    assert.deepEqual(drops, Array(dropped).fill(looks.length + 1));
    assert.equal(steps.filter((step) => step === "ticket").length, 2, "tries");
    assert.equal(steps.at(-1), "looking");
  }
});

test("a last look without an answer ends as unknown; a 429 is none", async (context) => {
  const lastAnswers = [
    [() => problem(503, "not_ready"), "unknown", 0],
    [() => Promise.reject(new TypeError("offline")), "unknown", 0],
    // The server does not know the ticket any more: another attempt needs another one.
    [() => problem(401, "ticket_invalid"), "unknown", 1],
    [(calls) => (calls ? problem(404, "not_found") : problem(429, "rate_limited", { "retry-after": "30" })), "refused", 0],
  ];
  for (const [answer, kind, dropped] of lastAnswers) {
    let lasts = 0;
    const { client, requests } = open({
      orders: refuseAfterSilence("sold_out"),
      "demo.1": () => (requests.at(-1).search ? answer(lasts++) : problem(404, "not_found")),
    });
    let drops = 0;
    const attempt = () => client.buy("demo", { sku: "a", obtainTicket: async () => ({ ...TICKET }), dropTicket: () => (drops += 1) });
    const outcome = await simulate(context, attempt);
    assert.deepEqual([outcome.kind, drops], [kind, dropped]);
    const [first, second] = lookups(requests).slice(-2);
    if (kind === "refused") assert.ok(second.at - first.at >= 30_000, `${second.at - first.at} ms`);
    assert.ok(lasts <= 3, `${lasts} last looks`);
  }
});

test("a sale that ends after a try without an answer ends the attempt only when the order was looked up", async (context) => {
  let isOver = false;
  const { client } = open({
    "gate.json": () => (isOver ? problem(410, "ended") : gate()),
    orders: () => {
      isOver = true;
      return problem(500, "internal");
    },
    "demo.1": () => ORDER,
  });
  const outcome = await simulate(context, () => client.buy("demo", { sku: "a" }));
  assert.deepEqual([outcome.kind, outcome.order], ["accepted", ORDER]);
});

test("looking for an order ends at once when the attempt is aborted", async (context) => {
  const { client, requests } = open({ orders: refuseAfterSilence("sold_out"), "demo.1": () => problem(404, "not_found") });
  const controller = new AbortController();
  const onStep = ({ step }) => step === "looking" && setTimeout(() => controller.abort(), 3_000);
  await assert.rejects(simulate(context, () => client.buy("demo", { sku: "a", onStep, signal: controller.signal })), Aborted);
  assert.ok(lookups(requests).every(({ search }) => search === ""));
});

test("an attempt after one that was aborted without an answer believes no refusal of that ticket", async (context) => {
  const controller = new AbortController();
  const { client } = open({
    orders: (_, calls) => {
      if (calls) return problem(409, "sold_out");
      controller.abort();
      throw new TypeError("aborted");
    },
    "demo.1": () => ORDER,
  });
  const saved = [];
  const saveTicket = (ticket) => saved.push(ticket.unanswered);
  const tickets = client.keepTicket("demo");
  await assert.rejects(client.buy("demo", { sku: "a", ...tickets, saveTicket, signal: controller.signal }), Aborted);
  // Also if the page was loaded again: the mark is saved before the request is sent.
  assert.deepEqual(saved, [undefined, true]);
  const outcome = await simulate(context, () => client.buy("demo", { sku: "a", ...tickets, saveTicket }));
  assert.deepEqual([outcome.kind, outcome.order], ["accepted", ORDER]);
});

test("a refusal or a 404 without a document of the app proves nothing", async (context) => {
  // A proxy may send these after the app got the request.
  for (const [silence, look, kind] of [
    [() => new Response("", { status: 503 }), () => ORDER, "accepted"],
    [() => new Response("", { status: 503 }), () => new Response("404 page not found", { status: 404 }), "unknown"],
  ]) {
    const { client } = open({
      orders: (_, calls) => (calls === 0 ? silence() : problem(409, "sold_out")),
      "demo.1": look,
    });
    assert.equal((await simulate(context, () => client.buy("demo", { sku: "a" }))).kind, kind);
  }
});

test("a refused ticket whose every try was answered is not looked up", async () => {
  const { client, requests } = open({ orders: () => problem(409, "sold_out") });
  const saved = [];
  for (let clicks = 0; clicks < 2; clicks += 1) {
    const outcome = await client.buy("demo", { sku: "a", ...client.keepTicket("demo"), saveTicket: ({ unanswered = false }) => saved.push(unanswered) });
    assert.deepEqual([outcome.kind, outcome.error.code], ["refused", "sold_out"]);
  }
  assert.equal(lookups(requests).length, 0);
  // Wanted, sent, refused, no longer wanted.
  assert.deepEqual(saved, [false, true, false, false, false, true, false, false]);
});

test("a refusal ends the attempt, and an ended sale does, too", async () => {
  const refused = await open({ orders: () => problem(409, "sold_out") }).client.buy("demo", { sku: "a" });
  assert.deepEqual([refused.kind, refused.error.code], ["refused", "sold_out"]);
  const ended = open({ "gate.json": (_, calls) => (calls === 0 ? gate() : problem(410, "ended")) });
  const client = ended.client;
  const watched = client.watchGate("demo");
  await watched.refresh();
  await watched.refresh();
  assert.equal(await watched.startKey(), null);
});

test("an aborted attempt ends at once", async () => {
  const { client } = open({ "gate.json": () => gate({ phase: "paused", start_key: undefined }) });
  const controller = new AbortController();
  const attempt = client.buy("demo", { sku: "a", signal: controller.signal });
  setTimeout(() => controller.abort(), 50);
  await assert.rejects(attempt, Aborted);
});

test("a human check is solved where the server asks for one, and an attempt buys with that ticket", async () => {
  const { client, requests } = open({
    ticket: ({ altcha }) => (altcha === "solved" ? TICKET : problem(403, "human_check_required")),
    challenge: () => ({ parameters: { algorithm: "PBKDF2/SHA-256" } }),
    orders: () => ORDER,
  });
  const solveCheck = async ({ challenge }) => ((await challenge()).parameters ? { altcha: "solved" } : {});
  assert.equal((await client.buy("demo", { sku: "a", solveCheck })).kind, "accepted");
  assert.deepEqual(requests.map(({ name }) => name).filter((name) => name !== "gate.json"), ["ticket", "challenge", "ticket", "orders"]);
  await assert.rejects(client.ticketWithCheck("demo"), { code: "human_check_required" });
  await client.keepTicket("demo", { token: "another", solveCheck }).obtainTicket();
  assert.equal(requests.at(-1).headers.authorization, "Bearer another");
  // A check that every visitor has to solve is solved first.
  requests.length = 0;
  await client.ticketWithCheck("demo", { check: "pow", solveCheck });
  assert.deepEqual(requests.map(({ name }) => name), ["challenge", "ticket"]);
});

test("a wrong answer brings another puzzle; other solutions that fail are given up after four", async () => {
  const { client, requests } = open({
    ticket: ({ captcha }) => (captcha?.answer === 6 ? TICKET : problem(403, "human_check_failed")),
    challenge: () => ({ captcha: { kind: "sum", id: "sum.1" } }),
  });
  const wrong = [];
  const solveCheck = async ({ challenge, wasWrong }) => {
    const { captcha } = await challenge({ captcha: "sum" });
    wrong.push(wasWrong);
    return { captcha: { id: captcha.id, answer: wrong.length } };
  };
  assert.deepEqual(await client.ticketWithCheck("demo", { check: "captcha", solveCheck }), TICKET);
  assert.deepEqual(wrong, [false, true, true, true, true, true]);
  requests.length = 0;
  const solvePow = async () => ({ altcha: "expired" });
  await assert.rejects(client.ticketWithCheck("demo", { check: "pow", solveCheck: solvePow }), { code: "human_check_failed" });
  assert.equal(requests.length, 4);
});

test("a date in Retry-After is compared with the server's, and Retry-After in seconds is taken as it is", async () => {
  const date = new Date(START).toUTCString();
  const headers = { date, "retry-after": new Date(START + 7_000).toUTCString() };
  for (const [fields, wait] of [[headers, 7_000], [{ ...headers, date: "" }, null], [{ "retry-after": "3" }, 3_000]]) {
    const { client } = open({ demo: () => problem(503, "overloaded", fields) });
    const error = await client.activity("demo").catch((error) => error);
    assert.deepEqual([error instanceof Problem, error.code, error.retryAfter], [true, "overloaded", wait]);
  }
});

test("the clock follows neither the device's clock nor the age of a cached answer", () => {
  let elapsed = 5_000;
  const { clock } = createClient({ now: () => elapsed });
  assert.ok(Number.isNaN(clock.now()));
  // Cached for 1.9 s; the cache says that it sent it in the second that began 1.5 s after it was written.
  clock.observe(new Date(START).toISOString(), { sentAt: 4_990, receivedAt: 5_000, date: START + 1_500 });
  assert.ok(clock.now() >= START + 1_500 && clock.now() <= START + 2_010, String(clock.now() - START));
  elapsed += 100;
  assert.equal(clock.millisecondsUntil(new Date(START).toISOString()), START - clock.now());
  // A date that disagrees with the answer is no evidence.
  const other = createClient({ now: () => 0 }).clock;
  other.observe(new Date(START).toISOString(), { sentAt: 0, receivedAt: 0, date: START + 600_000 });
  assert.equal(other.now(), START);
});

test("an unchanged order is polled by its ETag until nothing happens to it", async () => {
  const answers = [
    new Response(JSON.stringify(ORDER), { headers: { etag: '"1"', "retry-after": "0" } }),
    new Response(null, { status: 304, headers: { "retry-after": "0" } }),
    new Response(JSON.stringify({ ...ORDER, status: "paid" })),
  ];
  const { client, requests } = open({ "demo.1": (_, calls) => answers[calls] });
  const seen = [];
  await new Promise((resolve) => {
    const onChange = ({ status }) => (seen.push(status), status === "paid" && resolve());
    client.pollOrder("demo.1", { token: () => "t-1", onChange });
  });
  assert.deepEqual(seen, ["queued", "queued", "paid"]);
  assert.deepEqual(requests.map(({ headers }) => headers["if-none-match"]), [undefined, '"1"', '"1"']);
  assert.ok(requests.every(({ headers }) => headers.authorization === "Bearer t-1"));
});

test("an order that Redis alone does not know is asked for in the ledger before it is missing", async (context) => {
  for (const isInLedger of [true, false]) {
    const { client, requests } = open({
      "demo.1": () => (isInLedger && requests.at(-1).search ? { ...ORDER, status: "paid" } : problem(404, "not_found")),
    });
    const outcome = await simulate(context, () => new Promise((resolve) => {
      client.pollOrder("demo.1", { onChange: ({ status }) => resolve(status), onError: ({ code }) => resolve(code) });
    }));
    assert.equal(outcome, isInLedger ? "paid" : "not_found");
    assert.deepEqual(lookups(requests).map(({ search }) => search), ["", "?last=true"]);
  }
});

test("amounts have the decimals of their currency by ISO 4217, whatever the browser knows", () => {
  const texts = { EUR: "€19.99", HUF: "HUF 19.99", ISK: "ISK 1,999", IQD: "IQD 1.999", "?": "19.99 ?" };
  for (const [currency, text] of Object.entries(texts)) {
    assert.equal(formatMoney(1_999, currency, "en").replace("\u00a0", " "), text);
  }
  assert.deepEqual(["JPY", "KWD", "toString"].map(currencyDecimals), [0, 3, 2]);
});

test("errors say whether the same request may succeed later", () => {
  const of = (status) => isTransient(new Problem({ status, code: "x" }));
  assert.deepEqual([of(429), of(503), of(409), isTransient(new Unreachable())], [true, true, false, true]);
});

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
  // What is over is not resumed.
  status = "paid";
  assert.equal(await load().client.resume("demo", { storage }), null);
  assert.equal(storage.getItem("stampede.attempt.demo"), null);
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
