// The app under test, from outside: its address, its variables, and buyers.

import { randomBytes } from "node:crypto";

import { eventually, untilReady } from "../../support/retry.mjs";

export { eventually };

/** Where the app answers. */
export const url = variable("URL").replace(/\/$/, "");

/** Something that `with-app` says of the app, such as `ADMIN_TOKEN` or `PORT_EVENTS`. */
export function variable(name) {
  const value = process.env[`STAMPEDE_${name}`];
  if (!value) throw new Error(`set STAMPEDE_${name}: these tests need a running app`);
  return value;
}

/** Sends a request; resolves to the status, the headers, and the document. */
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

/** The same, for what has to succeed: a server that is not ready is asked again when it said. */
export async function call(method, path, options) {
  const { status, document } = await untilReady(() => send(method, path, options));
  if (status >= 300) throw new Error(`${method} ${path}: ${status} ${JSON.stringify(document)}`);
  return document;
}

/** The same for operators, below `/api/admin`. */
export const callAdmin = (method, path, body) =>
  call(method, `/api/admin${path}`, { token: variable("ADMIN_TOKEN"), body });

/** What the cron job calls. */
export const sweep = () => call("POST", "/api/tasks/sweep", { token: variable("CRON_TOKEN"), body: {} });

/** A name that no other test has. */
export const unique = (word) => `${word}-${randomBytes(4).toString("hex")}`;

/** Creates and publishes a sale of one SKU, `item`, at 19.99 EUR; resolves to its id and its start key. */
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

/** Somebody who is signed in. */
export async function signIn(user = unique("buyer")) {
  const { token } = await call("POST", "/sandbox/sign-in", { body: { user } });
  return { user, token };
}

/** Buys some units of `item`, and waits until they can be paid; resolves to the order. */
export async function buy(sale, { token }, quantity = 1) {
  const { ticket } = await eventually("a ticket", async () => {
    const { status, document } = await send("POST", `/api/activities/${sale.id}/ticket`, { token, body: {} });
    return { done: status === 201, value: document };
  });
  const body = { sku: "item", quantity, ticket, start_key: sale.startKey };
  const order = await call("POST", `/api/activities/${sale.id}/orders`, { body });
  return untilOrder(order.order_no, "pending_payment", { token });
}

/** Waits until an order has a status, as its owner sees it; sweeps meanwhile. */
export const untilOrder = (order, status, { token }) =>
  eventually(`${order} becoming ${status}`, async () => {
    await sweep();
    const value = await call("GET", `/api/orders/${order}`, { token });
    return { done: value.status === status, value };
  });

/** An address that can be delivered to. */
export const address = { name: "Ada", line1: "1 Mill Lane", city: "London", postal_code: "N1", country: "GB" };
