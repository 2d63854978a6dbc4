// The client (G14) against a `fetch` that answers as a server would.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { Aborted, Problem, Unreachable, bestLanguage, createClient, currencyDecimals, formatMoney, isTransient } from "@stampede/client";
import { START, TICKET, ORDER, problem, gate, open, simulate, refuseAfterSilence, lookups } from "./support.js";

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

test("a reservation that joins the line says so, and the order that somebody waits with is named", async () => {
  const entry = { ...ORDER, status: "waiting", ahead: 4 };
  const { client, requests } = open({
    orders: (_, calls) => (calls ? new Response(JSON.stringify({ code: "limit_reached", order_no: "demo.1" }), { status: 409 }) : entry),
    cancel: () => ({ ...entry, status: "cancelled", reason: "left_line" }),
    "demo.1": () => entry,
  });
  const { kind, order } = await client.buy("demo", { sku: "a" });
  assert.deepEqual([kind, order], ["waiting", entry]);
  const { error } = await client.buy("demo", { sku: "a" });
  assert.deepEqual([error.orderNo, client.explain(error)], ["demo.1", "You are on the waitlist already."]);
  assert.equal((await client.leave("demo.1")).reason, "left_line");
  assert.deepEqual([requests.at(-1).name, requests.at(-1).body], ["cancel", { status: "waiting" }]);
});

test("a buyer who leaves the line after a unit was offered keeps the order", async () => {
  for (const status of ["queued", "pending_payment"]) {
    const { client, requests } = open({ cancel: () => problem(409, "state_conflict"), "demo.1": () => ({ ...ORDER, status }) });
    assert.equal((await client.leave("demo.1")).status, status);
    assert.deepEqual(requests.map(({ name, body }) => [name, body]), [["cancel", { status: "waiting" }], ["demo.1", undefined]]);
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
