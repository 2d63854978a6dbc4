// Buys a unit by calls with the types that openapi-typescript made, and tries to buy another one. Prints the number of
// the order and the code of the refusal.

import createClient from "openapi-fetch";

const { APP, SALE, TOKEN } = /** @type {Record<string, string>} */ (process.env);
/** @type {import("openapi-fetch").Client<import("../node_modules/api.js").paths>} */
const client = createClient({ baseUrl: APP, headers: { authorization: `Bearer ${TOKEN}` } });
const params = { path: { activity: SALE } };

async function buy() {
  const { data: ticket } = await client.POST("/api/activities/{activity}/ticket", { params, body: {} });
  const { data: gate } = await client.GET("/api/activities/{activity}/gate.json", { params });
  if (!ticket || !gate?.start_key) throw new Error("no ticket, or not open");
  const body = { sku: "item", quantity: 1, ticket: ticket.ticket, start_key: gate.start_key };
  return client.POST("/api/activities/{activity}/orders", { params, body });
}

const { data: order } = await buy();
const { error } = await buy();
/** @type {"limit_reached" | "sold_out" | undefined} */
const code = error?.code === "limit_reached" || error?.code === "sold_out" ? error.code : undefined;
console.log(order?.order_no, code);
