/**
 * Keeps the stock and the orders of a Medusa shop in step with flash sales. README.md says what to set.
 *
 * All state is in the shop. Each step first reads what is there, so it can be killed anywhere and repeated.
 * The reservation of a sale's total stays until the sale is settled, and each order reserves its units besides. So the
 * shop never offers a unit that the sale may still sell.
 *
 * Other shops: WooCommerce's API has no reservations, so move the total to the stock of a hidden product, and back what
 * is left; find orders by `meta_data`, in one process. Shopify: `inventoryMoveQuantities` from `available` to `reserved`
 * and back, `orderCreate` with `sourceIdentifier` and `DECREMENT_IGNORING_POLICY`, `orderCancel` with `restock`.
 */

import { createServer } from "node:http";

import { Webhook } from "standardwebhooks";

import { currencyDecimals } from "../../clients/js/src/money.js";

const { APP_URL, OPERATOR_TOKEN, EVENTS_SECRET, PORT } = process.env;
const { MEDUSA_URL, MEDUSA_KEY, MEDUSA_LOCATION, MEDUSA_CHANNEL, MEDUSA_REGION } = process.env;

async function request(method, url, authorization, body) {
  const headers = { authorization, "content-type": "application/json" };
  const response = await fetch(url, { method, headers, body: body && JSON.stringify(body) });
  if (!response.ok) throw new Error(`${method} ${url}: ${response.status} ${await response.text()}`);
  return response.json();
}

const readApp = (path) => request("GET", `${APP_URL}/api/admin${path}`, `Bearer ${OPERATOR_TOKEN}`);

const callShop = (method, path, body) =>
  request(method, `${MEDUSA_URL}/admin${path}`, `Basic ${btoa(`${MEDUSA_KEY}:`)}`, body);

/** The variant that the sale sells. It allows backorders, because the sale has reserved the stock of its orders. */
async function findVariant(sku) {
  const fields = "id,allow_backorder,inventory_items.inventory_item_id";
  const { variants } = await callShop("GET", `/product-variants?${new URLSearchParams({ sku, fields })}`);
  if (!variants[0]?.allow_backorder) throw new Error(`the shop has no variant ${sku} that allows backorders`);
  return variants[0];
}

const describe = (sale, sku) => `Flash sale ${sale}: ${sku}`;

/** The reservations of a SKU's total, the oldest first. */
async function findReservations(sale, sku) {
  const query = new URLSearchParams({ description: describe(sale, sku), order: "created_at" });
  return (await callShop("GET", `/reservations?${query}`)).reservations;
}

async function readSale(sale) {
  const { skus, state, ends_at: end } = await readApp(`/activities/${sale}`);
  const limited = skus.filter(({ total }) => total > 0);
  return { skus: limited, hasEnded: state === "closed" || Date.parse(end) < Date.now() };
}

/** Takes the totals of a sale out of the shop's stock. */
async function take(sale) {
  const { skus, hasEnded } = await readSale(sale);
  if (hasEnded) throw new Error(`${sale} has ended`);
  for (const { sku, total: quantity } of skus) {
    const { inventory_items: [{ inventory_item_id }] } = await findVariant(sku);
    const [first, ...others] = await findReservations(sale, sku);
    // The shop finished a request whose sender was killed.
    for (const { id } of others) await callShop("DELETE", `/reservations/${id}`);
    const reservation = { inventory_item_id, location_id: MEDUSA_LOCATION, description: describe(sale, sku), quantity };
    if (!first) await callShop("POST", "/reservations", reservation);
    else if (first.quantity !== quantity) await callShop("POST", `/reservations/${first.id}`, { quantity });
  }
}

/** The shop's order with this number: a draft until it has reserved its units. */
async function findOrder(number) {
  const query = new URLSearchParams({ q: number, fields: "id,status,custom_display_id" });
  const [{ orders }, { draft_orders: drafts }] =
    await Promise.all(["orders", "draft-orders"].map((kind) => callShop("GET", `/${kind}?${query}`)));
  return [...orders, ...drafts].find(({ custom_display_id: own }) => own === number);
}

/** The lines of an address of our own pages and of Stripe. */
const convertAddress = ({ name, phone, street, city, state, postal_code, country }) => {
  const lines = { first_name: name, phone, address_1: street, city, province: state, postal_code };
  return { ...lines, country_code: country?.toLowerCase() };
};

/** Creates a draft. The shop refuses a second one with the same number. */
async function createDraft({ order_no, sku, quantity, amount, currency, user, payment, address }) {
  const { id: variant_id } = await findVariant(sku);
  const unit_price = amount / quantity / 10 ** currencyDecimals(currency);
  const { draft_order: draft } = await callShop("POST", "/draft-orders", {
    region_id: MEDUSA_REGION,
    sales_channel_id: MEDUSA_CHANNEL,
    customer_id: user,
    items: [{ variant_id, quantity, unit_price }],
    metadata: { stampede_order: order_no, payment },
    ...(address && { shipping_address: convertAddress(address) }),
  });
  return draft;
}

/** Makes the shop's order agree with an order of the app. */
async function book(order) {
  let own = await findOrder(order.order_no);
  if (["paid", "refunding"].includes(order.status)) {
    own ??= await createDraft(order);
    if (own.status === "draft") await callShop("POST", `/draft-orders/${own.id}/convert-to-order`, {});
  } else if (order.status === "refunded" && own && own.status !== "canceled") {
    await callShop("POST", `/orders/${own.id}/cancel`, {});
  }
}

/** After a sale: books what events have missed, then gives back what the sale did not sell. */
async function settle(sale) {
  const { skus, hasEnded } = await readSale(sale);
  const { held_units: held } = await readApp(`/activities/${sale}/stats`);
  if (!hasEnded || held > 0) throw new Error(`${sale}: its buyers can still pay`);
  for (const status of ["paid", "refunding", "refunded"]) {
    for (let before = ""; before !== null;) {
      const page = await readApp(`/orders?${new URLSearchParams({ activity: sale, status, addresses: true, before })}`);
      for (const order of page.items) await book(order);
      before = page.next;
    }
  }
  for (const { sku } of skus) {
    for (const { id } of await findReservations(sale, sku)) await callShop("DELETE", `/reservations/${id}`);
  }
}

async function handle({ type, data }) {
  if (["order.paid", "order.refunded"].includes(type)) await book(await readApp(`/orders/${data.order_no}`));
  if (type === "activity.ended") await settle(data.activity);
}

function serve() {
  const webhook = new Webhook(EVENTS_SECRET);
  createServer(async (request, response) => {
    let [body, event] = [""];
    for await (const chunk of request.setEncoding("utf8")) body += chunk;
    try {
      event = webhook.verify(body, request.headers);
    } catch {
      return response.writeHead(401).end();
    }
    const error = await handle(event).catch((reason) => reason);
    if (error) console.error(error.message); // The app sends the event again.
    response.writeHead(error ? 503 : 204).end();
  }).listen(PORT);
}

const [command, sale] = process.argv.slice(2);
await { take, settle, serve }[command](sale);
