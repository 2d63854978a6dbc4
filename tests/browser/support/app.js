// What the stories need of the app besides the client that all JavaScript tests share.

import { resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { call, callAdmin, publishActivity, reserve, signIn, unique, untilOrder, untilPhase, variable } from "../../support/app.mjs";

export { call, callAdmin, eventually, reserve, send, signIn, sweep, unique, untilOrder, untilPhase, url } from "../../support/app.mjs";

/** Where Cargo builds, and where the reports of failed tests go. */
export const targetDirectory =
  resolve(fileURLToPath(new URL("../../..", import.meta.url)), process.env.CARGO_TARGET_DIR ?? "target");

/** The operator's token, to enter on the operator's page. */
export const operatorToken = () => variable("ADMIN_TOKEN");

/** A delivery address, as the checkout route takes it. */
export const ADDRESS = { name: "Mia Example", street: "1 Long Road", postal_code: "12345", city: "Town", country: "DE" };

/** The secret that signs the callbacks of the sandbox. */
export const webhookSecret = () => variable("WEBHOOK_SECRETS").split(" ")[0];

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

/**
 * Creates and publishes an activity with one SKU, `item`. Times are in milliseconds. Resolves to its id and start.
 *
 * It ends soon: the operators' list has the 150 activities that end next.
 */
export async function publish({
  startsIn = -1_000, duration = 300_000, total = 10, payTimeout = 300, perUser = 1, ...overrides
} = {}) {
  const startsAt = Date.now() + startsIn;
  const id = await publishActivity({
    starts_at: new Date(startsAt).toISOString(),
    ends_at: new Date(startsAt + duration).toISOString(),
    pay_timeout_seconds: payTimeout,
    per_user: perUser,
    skus: [{ sku: "item", name: "The item", price: 1_999, currency: "EUR", total }],
    ...overrides,
  });
  await untilPhase(id, { phases: ["scheduled", "open"] });
  return { id, startsAt };
}

/** Publishes an activity that is over, since an operator has closed it. Resolves to its id. */
export async function publishEnded() {
  const { id } = await publish();
  await callAdmin("POST", `/activities/${id}/close`);
  await untilPhase(id, { phases: ["ended"] });
  return id;
}

/** Publishes an activity, and reserves a unit of it for a buyer. Resolves to all three when the order can be paid. */
export async function createOrder(sale, user) {
  const { id } = await publish(sale);
  return { id, ...(await orderOf(id, user)) };
}

/** Reserves a unit for a buyer. Resolves to the buyer and the order's number when it can be paid. */
export async function orderOf(id, user) {
  const buyer = await signIn(user);
  const { order_no: order } = await reserve(id, buyer);
  await untilOrder(order, "pending_payment", buyer);
  return { buyer, order };
}

/** What an activity is, as an operator sends it. */
async function specOf(id) {
  const { state, version, id: _, ...spec } = await callAdmin("GET", `/activities/${id}`);
  return spec;
}

/** Changes members of an activity. */
export const changeSale = async (id, changes) => callAdmin("PUT", `/activities/${id}`, { ...(await specOf(id)), ...changes });

/** Creates a draft with the members of an activity. Resolves to its id. */
export async function copyAsDraft(id, changes) {
  const draft = unique("draft");
  await callAdmin("PUT", `/activities/${draft}`, { ...(await specOf(id)), ...changes });
  return draft;
}

/** The figures of an activity's first SKU: `left`, `held`, `sold`. */
export const stock = async (id) => (await callAdmin("GET", `/activities/${id}/stats`)).skus[0];
