// Client of the app under test: its address, the admin API, and buyers without a browser.

import { randomBytes } from "node:crypto";

import { eventually, untilReady } from "../../support/retry.mjs";

export { eventually };

/** The address of the app. */
export const url = required("STAMPEDE_URL").replace(/\/$/, "");

const adminToken = required("STAMPEDE_ADMIN_TOKEN");
const cronToken = required("STAMPEDE_CRON_TOKEN");

/** The operator's token, to enter on the operator's page. */
export const operatorToken = adminToken;

function required(name) {
  const value = process.env[name];
  if (!value) throw new Error(`set ${name}: these tests need a running app and its tokens`);
  return value;
}

/**
 * Sends a request that must succeed. Resolves to the JSON document of the response; throws with the response's text.
 * Retries a 503 after its `Retry-After`.
 */
export async function call(method, path, { token, body } = {}) {
  const { status, text } = await untilReady(async () => {
    const response = await fetch(url + path, {
      method,
      headers: {
        ...(token && { authorization: `Bearer ${token}` }),
        ...(body !== undefined && { "content-type": "application/json" }),
      },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    return { status: response.status, headers: response.headers, text: await response.text() };
  });
  if (status >= 300) throw new Error(`${method} ${path}: ${status} ${text}`);
  return text ? JSON.parse(text) : null;
}

/** As `call`, below `/api/admin` with the operator's token. */
export const callAdmin = (method, path, body) => call(method, `/api/admin${path}`, { token: adminToken, body });

/** Runs the sweeper, as the cron job does. */
export const sweep = () => call("POST", "/api/tasks/sweep", { token: cronToken, body: {} });

/** A name that no other test uses. */
export const unique = (prefix) => `${prefix}-${randomBytes(4).toString("hex")}`;

/** The server's clock minus this machine's, in milliseconds, by the quickest of eight responses. */
export async function serverClockOffset(activity) {
  let best = { roundTrip: Infinity };
  for (let tries = 0; tries < 8; tries += 1) {
    const sentAt = Date.now();
    const { server_time: time } = await call("GET", `/api/activities/${activity}/gate.json`);
    const roundTrip = Date.now() - sentAt;
    if (roundTrip < best.roundTrip) best = { roundTrip, offset: Date.parse(time) - sentAt - roundTrip / 2 };
  }
  return best.offset;
}

/** Creates and publishes an activity with one SKU, `item`. Times are in milliseconds. Resolves to its id and start. */
export async function publish({
  startsIn = -1_000, duration = 600_000, total = 10, payTimeout = 300, perUser = 1, ...overrides
} = {}) {
  const id = unique("sale");
  const startsAt = Date.now() + startsIn;
  await callAdmin("PUT", `/activities/${id}`, {
    title: `The sale ${id}`,
    starts_at: new Date(startsAt).toISOString(),
    ends_at: new Date(startsAt + duration).toISOString(),
    pay_timeout_seconds: payTimeout,
    per_user: perUser,
    skus: [{ sku: "item", name: "The item", price: 1_999, currency: "EUR", total }],
    ...overrides,
  });
  await callAdmin("POST", `/activities/${id}/publish`, {});
  await untilPhase(id, { phases: ["scheduled", "open", "ended"] });
  return { id, startsAt };
}

/** Waits until the gate of an activity has one of these phases: a change takes up to two seconds (F5). */
export const untilPhase = (id, { phases }) =>
  eventually(`the sale ${id} being ${phases.join(" or ")}`, async () => {
    const response = await fetch(`${url}/api/activities/${id}/gate.json`);
    const value = await response.json();
    return { done: phases.includes(value.phase), value };
  });

/** Signs a buyer in without a browser. */
export async function signIn(user = unique("buyer")) {
  const { token } = await call("POST", "/sandbox/sign-in", { body: { user } });
  return { user, token };
}

/** Reserves one unit of `item`. Resolves to the order. */
export async function reserve(activity, { token }) {
  const { ticket } = await call("POST", `/api/activities/${activity}/ticket`, { token, body: {} });
  const { start_key } = await untilPhase(activity, { phases: ["open"] });
  return call("POST", `/api/activities/${activity}/orders`, { body: { sku: "item", quantity: 1, ticket, start_key } });
}

/** Waits until an order has a status, as reported to its owner. */
export const untilOrder = (order, status, { token }) =>
  eventually(`${order} becoming ${status}`, async () => {
    const value = await call("GET", `/api/orders/${order}`, { token });
    return { done: value.status === status, value };
  });
