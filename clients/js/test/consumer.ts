// A page in TypeScript: `npm test` checks its types against the package's.

import {
  createClient, Problem, type Activity, type CheckRequest, type Client, type Code, type Order, type OrderStatus, type Ticket,
} from "@stampede/client";

const client: Client = createClient({ baseUrl: "https://sale.example", token: () => null });
const sale: Activity = await client.activity("demo");
const price: number = sale.skus[0].price;
const gate = client.watchGate("demo", { onChange: ({ phase, jitter_ms }) => console.log(phase, jitter_ms) });
const outcome = await client.buy("demo", { sku: sale.skus[0].sku, gate, onStep: ({ step }) => console.log(step, price) });
if (outcome.kind === "refused" && outcome.error instanceof Problem) {
  const code: Code = outcome.error.code;
  if (code === "price_changed") console.log(outcome.error.amount);
  // @ts-expect-error A code that is misspelt.
  if (outcome.error.code === "sold-out") console.log(code);
}
if (outcome.kind === "accepted") {
  const [order, ticket]: [Order, Ticket] = [outcome.order, outcome.ticket];
  const status: OrderStatus = order.status;
  // @ts-expect-error A status that is misspelt.
  if (status === "canceled") console.log(ticket.expires_at);
  // @ts-expect-error An order has no such member.
  console.log(order.total);
  const orderNo: string = outcome.order.order_no;
  client.pollOrder(orderNo, { token: () => outcome.ticket.ticket, onChange: ({ status }) => console.log(status) });
  const { checkout_url: url } = await client.checkout(orderNo, { address: { name: "Mia" }, language: "en" });
  location.assign(url);
}
const lost = await client.order("demo.1", { token: "1.ticket", last: true });
console.log(lost.status, (await client.findOrder({ ticket: "1.t", order_no: "demo.1", expires_at: "" }))?.order_no);
const solveCheck = async ({ challenge, wasWrong }: CheckRequest) => {
  const { captcha } = await challenge({ captcha: wasWrong ? "sum" : "slider" });
  return captcha ? { captcha: { id: captcha.id, answer: 42 } } : {};
};
await client.keepTicket("demo", { check: sale.human_check, solveCheck }).obtainTicket();
await client.buy("demo", { sku: "a", solveCheck });
// @ts-expect-error A solution is an object.
void client.buy("demo", { sku: "a", solveCheck: async () => "solved" });
// @ts-expect-error A quantity is a number.
void client.buy("demo", { sku: "a", quantity: "1" });
const resumed = await client.resume("demo", client.keepTicket("demo", { storage: sessionStorage }));
if (resumed?.kind === "accepted") {
  for await (const { status } of client.watchOrder(resumed.order.order_no)) console.log(status);
}
console.log(client.explain("sold_out", "zh"));

import { StampedeBuy, type AcceptedEvent, type RefusedEvent } from "@stampede/client/element";

const element = document.querySelector("stampede-buy") as StampedeBuy;
element.token = () => null;
element.solveCheck = solveCheck;
// @ts-expect-error A token is a text.
element.token = 42;
element.addEventListener("accepted", (event) => console.log((event as AcceptedEvent).detail.order.order_no));
// @ts-expect-error A code that is misspelt.
element.addEventListener("refused", (event) => (event as RefusedEvent).detail.code === "sold-out");
