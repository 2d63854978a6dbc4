// Client of the app under test, for the tests written in JavaScript: requests, polling, activities and buyers.

import { createHmac, randomBytes } from "node:crypto";

/** A `STAMPEDE_…` environment variable that `with-app` sets, such as `ADMIN_TOKEN` or `PORT_EVENTS`. */
export function variable(name) {
  const value = process.env[`STAMPEDE_${name}`];
  if (!value) throw new Error(`set STAMPEDE_${name}: these tests need a running app`);
  return value;
}

/** The address of the app. */
export const url = () => variable("URL").replace(/\/$/, "");

const sleep = (time) => new Promise((resolve) => setTimeout(resolve, time));

/**
 * Runs `probe` every 100 ms until it returns `{done: true, value}`, and returns the value. After `seconds`, runs it once
 * more and throws with the last value.
 */
export async function eventually(what, probe, seconds = 30) {
  const deadline = Date.now() + seconds * 1_000;
  for (;;) {
    const isLast = Date.now() > deadline;
    const result = await probe();
    if (result.done) return result.value;
    if (isLast) throw new Error(`${what} did not happen; last seen: ${JSON.stringify(result.value)}`);
    await sleep(100);
  }
}

/** Sends a request. Resolves to the status, the headers and the JSON document. A string body is sent as it is. */
export async function send(method, path, { token, body, headers } = {}) {
  const raw = typeof body === "string";
  const response = await fetch(url() + path, {
    method,
    headers: {
      ...(token && { authorization: `Bearer ${token}` }),
      ...(body !== undefined && { "content-type": "application/json" }),
      ...headers,
    },
    body: body === undefined || raw ? body : JSON.stringify(body),
  });
  const text = await response.text();
  return { status: response.status, headers: response.headers, document: text ? JSON.parse(text) : null };
}

/** Sends a request that must succeed. Resolves to its document. Retries a 503 after its `Retry-After`, for 30 seconds. */
export async function call(method, path, options) {
  const deadline = Date.now() + 30_000;
  for (;;) {
    const { status, headers, document } = await send(method, path, options);
    if (status < 300) return document;
    const wait = Number(headers.get("retry-after")) * 1_000;
    if (status !== 503 || wait <= 0 || Date.now() + wait >= deadline) {
      throw new Error(`${method} ${path}: ${status} ${JSON.stringify(document)}`);
    }
    await sleep(wait);
  }
}

/** As `call`, below `/api/admin` with the operator's token. */
export const callAdmin = (method, path, body) =>
  call(method, `/api/admin${path}`, { token: variable("ADMIN_TOKEN"), body });

/** Runs the sweeper, as the cron job does. */
export const sweep = () => call("POST", "/api/tasks/sweep", { token: variable("CRON_TOKEN"), body: {} });

/** A name that no other test uses. */
export const unique = (prefix) => `${prefix}-${randomBytes(4).toString("hex")}`;

/** Creates a draft of an activity with one SKU, `item`, at 19.99 EUR, open for ten minutes. Resolves to its id. */
export async function createActivity(changes) {
  const id = unique("sale");
  await callAdmin("PUT", `/activities/${id}`, {
    title: `The sale ${id}`,
    starts_at: new Date(Date.now() - 1_000).toISOString(),
    ends_at: new Date(Date.now() + 600_000).toISOString(),
    pay_timeout_seconds: 300,
    skus: [{ sku: "item", name: "The item", price: 1_999, currency: "EUR", total: 10 }],
    ...changes,
  });
  return id;
}

/** As `createActivity`, and publishes it. */
export async function publishActivity(changes) {
  const id = await createActivity(changes);
  await callAdmin("POST", `/activities/${id}/publish`, {});
  return id;
}

/** Waits until the gate of an activity has one of these phases: a change takes up to two seconds (F5). */
export const untilPhase = (id, { phases }) =>
  eventually(`the sale ${id} being ${phases.join(" or ")}`, async () => {
    const { document } = await send("GET", `/api/activities/${id}/gate.json`);
    return { done: phases.includes(document?.phase), value: document };
  });

/** Signs a buyer in without a browser, as an issuer with the app's key would. */
export async function signIn(user = unique("buyer")) {
  const claims = {
    sub: user,
    iss: variable("JWT_ISSUER"),
    aud: variable("JWT_AUDIENCE"),
    exp: Math.floor(Date.now() / 1_000) + 3_600,
  };
  const encode = (value) => Buffer.from(JSON.stringify(value)).toString("base64url");
  const text = `${encode({ alg: "HS256", typ: "JWT" })}.${encode(claims)}`;
  const signature = createHmac("sha256", variable("JWT_KEY")).update(text).digest("base64url");
  return { user, token: `${text}.${signature}` };
}

/** Reserves units of `item`. Resolves to the order. */
export async function reserve(activity, { token }, quantity = 1) {
  // Each function sees a new activity within two seconds (F5).
  const ticket = await eventually("a ticket", async () => {
    const { status, document } = await send("POST", `/api/activities/${activity}/ticket`, { token, body: {} });
    return { done: status === 201, value: document };
  });
  const { start_key } = await untilPhase(activity, { phases: ["open"] });
  const body = { sku: "item", quantity, ticket: ticket.ticket, start_key };
  return call("POST", `/api/activities/${activity}/orders`, { body });
}

/** Waits until an order has a status, as reported to its owner. Runs `before` each time it asks. */
export const untilOrder = (order, status, { token }, before) =>
  eventually(`${order} becoming ${status}`, async () => {
    await before?.();
    const value = await call("GET", `/api/orders/${order}`, { token });
    return { done: value.status === status, value };
  });
