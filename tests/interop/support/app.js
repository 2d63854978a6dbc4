// Client of the app under test: its address, its variables, the admin API, and buyers.

import { randomBytes } from "node:crypto";

import { eventually, untilReady } from "../../support/retry.mjs";

export { eventually };

/** The address of the app. */
export const url = variable("URL").replace(/\/$/, "");

/** A `STAMPEDE_…` environment variable that `with-app` sets, such as `ADMIN_TOKEN` or `PORT_EVENTS`. */
export function variable(name) {
  const value = process.env[`STAMPEDE_${name}`];
  if (!value) throw new Error(`set STAMPEDE_${name}: these tests need a running app`);
  return value;
}

/** Sends a request. Resolves to the status, the headers and the JSON document. A string body is sent as it is. */
export async function send(method, path, { token, body, headers } = {}) {
  const raw = typeof body === "string";
  const response = await fetch(url + path, {
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

/** Sends a request that must succeed. Resolves to its document. Retries a 503 after its `Retry-After`. */
export async function call(method, path, options) {
  const { status, document } = await untilReady(() => send(method, path, options));
  if (status >= 300) throw new Error(`${method} ${path}: ${status} ${JSON.stringify(document)}`);
  return document;
}

/** As `call`, below `/api/admin` with the operator's token. */
export const callAdmin = (method, path, body) =>
  call(method, `/api/admin${path}`, { token: variable("ADMIN_TOKEN"), body });

/** Runs the sweeper, as the cron job does. */
export const sweep = () => call("POST", "/api/tasks/sweep", { token: variable("CRON_TOKEN"), body: {} });

/** A name that no other test uses. */
export const unique = (word) => `${word}-${randomBytes(4).toString("hex")}`;

/** Creates and publishes an activity with one SKU, `item`, at 19.99 EUR. Resolves to its id and start key. */
export async function publish(changes = {}) {
  const id = unique("sale");
  await callAdmin("PUT", `/activities/${id}`, {
    title: `The sale ${id}`,
    starts_at: new Date(Date.now() - 60_000).toISOString(),
    ends_at: new Date(Date.now() + 600_000).toISOString(),
    pay_timeout_seconds: 300,
    per_user: 5,
    limits: { user: null, ip: null, all: null },
    skus: [{ sku: "item", name: "The item", price: 1_999, currency: "EUR", total: 10 }],
    ...changes,
  });
  await callAdmin("POST", `/activities/${id}/publish`, {});
  const gate = await eventually(`the sale ${id} opening`, async () => {
    const { document } = await send("GET", `/api/activities/${id}/gate.json`);
    return { done: document?.phase === "open" && document.start_key, value: document };
  });
  return { id, startKey: gate.start_key };
}

/** Signs a buyer in. */
export async function signIn(user = unique("buyer")) {
  const { token } = await call("POST", "/sandbox/sign-in", { body: { user } });
  return { user, token };
}

/** Reserves units of `item` and waits until the order can be paid. Resolves to the order. */
export async function buy(sale, { token }, quantity = 1) {
  const { ticket } = await eventually("a ticket", async () => {
    const { status, document } = await send("POST", `/api/activities/${sale.id}/ticket`, { token, body: {} });
    return { done: status === 201, value: document };
  });
  const body = { sku: "item", quantity, ticket, start_key: sale.startKey };
  const order = await call("POST", `/api/activities/${sale.id}/orders`, { body });
  return untilOrder(order.order_no, "pending_payment", { token });
}

/** Sweeps until an order has a status, as reported to its owner. */
export const untilOrder = (order, status, { token }) =>
  eventually(`${order} becoming ${status}`, async () => {
    await sweep();
    const value = await call("GET", `/api/orders/${order}`, { token });
    return { done: value.status === status, value };
  });

/** A valid delivery address. */
export const address = { name: "Ada", line1: "1 Mill Lane", city: "London", postal_code: "N1", country: "GB" };
