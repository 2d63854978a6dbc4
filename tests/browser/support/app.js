// The app under test, from outside: its address, its operator's interface, and buyers without a browser.

import { randomBytes } from "node:crypto";

import { eventually, untilReady } from "../../support/retry.mjs";

export { eventually };

/** Where the app answers. */
export const url = required("STAMPEDE_URL").replace(/\/$/, "");

const adminToken = required("STAMPEDE_ADMIN_TOKEN");
const cronToken = required("STAMPEDE_CRON_TOKEN");

/** The operator's token, for the page that asks for it. */
export const operatorToken = adminToken;

function required(name) {
  const value = process.env[name];
  if (!value) throw new Error(`set ${name}: these tests need a running app and its tokens`);
  return value;
}

/**
 * Sends a request; resolves to its document, and fails with what the server said. A server that is not ready is asked
 * again when it said.
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

/** The same for operators, below `/api/admin`. */
export const operate = (method, path, body) => call(method, `/api/admin${path}`, { token: adminToken, body });

/** What the cron job calls. */
export const sweep = () => call("POST", "/api/tasks/sweep", { token: cronToken, body: {} });

/** A name that no other test has. */
export const unique = (word) => `${word}-${randomBytes(4).toString("hex")}`;

/** Milliseconds between this machine's clock and the server's, by the quickest of some answers. */
export async function serverOffset(activity) {
  let best = { took: Infinity };
  for (let tries = 0; tries < 8; tries += 1) {
    const asked = Date.now();
    const { server_time: time } = await call("GET", `/api/activities/${activity}/gate.json`);
    const took = Date.now() - asked;
    if (took < best.took) best = { took, offset: Date.parse(time) - asked - took / 2 };
  }
  return best.offset;
}

/** Creates and publishes a sale of one SKU, `item`; resolves to its id and its start. */
export async function publish({ startsIn = -1_000, lasts = 600_000, total = 10, payTimeout = 300, perUser = 1, ...rest } = {}) {
  const id = unique("sale");
  const startsAt = Date.now() + startsIn;
  await operate("PUT", `/activities/${id}`, {
    title: `The sale ${id}`,
    starts_at: new Date(startsAt).toISOString(),
    ends_at: new Date(startsAt + lasts).toISOString(),
    pay_timeout_seconds: payTimeout,
    per_user: perUser,
    skus: [{ sku: "item", name: "The item", price: 1_999, currency: "EUR", total }],
    ...rest,
  });
  await operate("POST", `/activities/${id}/publish`, {});
  await untilPhase(id, { among: ["scheduled", "open", "ended"] });
  return { id, startsAt };
}

/** Waits until the gate of a sale says one of these phases: a change takes up to two seconds (F5). */
export const untilPhase = (id, { among }) =>
  eventually(`the sale ${id} being ${among.join(" or ")}`, async () => {
    const response = await fetch(`${url}/api/activities/${id}/gate.json`);
    const value = await response.json();
    return { done: among.includes(value.phase), value };
  });

/** A buyer without a browser. */
export async function signIn(user = unique("buyer")) {
  const { token } = await call("POST", "/sandbox/sign-in", { body: { user } });
  return { user, token };
}

/** Buys one unit of `item`; resolves to the order. */
export async function reserve(sale, { token }) {
  const { ticket } = await call("POST", `/api/activities/${sale}/ticket`, { token, body: {} });
  const { start_key } = await untilPhase(sale, { among: ["open"] });
  return call("POST", `/api/activities/${sale}/orders`, { body: { sku: "item", quantity: 1, ticket, start_key } });
}

/** Waits until an order has a status, as its owner sees it. */
export const untilOrder = (order, status, { token }) =>
  eventually(`${order} becoming ${status}`, async () => {
    const value = await call("GET", `/api/orders/${order}`, { token });
    return { done: value.status === status, value };
  });
