// The states of an order's page, of the list of orders, and of the page after a sign-in.

const time = (milliseconds) => new Date(milliseconds).toISOString();

const NO = "range.01JD3Z5Q7W8X9Y0A6BEDR0SS";

const activity = (now, changes) => ({
  id: "range", title: "Rangefinder, series 2", titles: { zh: "旁轴相机 第二代" }, image: "/demo/camera.svg", phase: "open", server_time: time(now),
  starts_at: time(now - 600_000), ends_at: time(now + 3_000_000), refund_window_seconds: 1_209_600, checkout: "form",
  skus: [{ sku: "body", name: "Rangefinder body", names: { zh: "旁轴机身" }, image: "/demo/camera.svg", price: 189_900, currency: "EUR", total: 10, left: 3 }],
  ...changes,
});

const order = (now, changes) => ({
  order_no: NO, activity: "range", status: "pending_payment", sku: "body", quantity: 1, amount: 189_900, currency: "EUR", ahead: 0, estimated_wait_ms: 0,
  created_at: time(now - 8_000), pay_by: time(now + 292_000), ...changes,
});

/** A state of the page of an order; `sale` changes the activity. */
const state = (name, changes = {}, { sale = {}, query = "", ...more } = {}) => ({
  name, path: `/order?order_no=${NO}${query}`, user: "mia", until: "#headline", isFull: false,
  answers: (now) => ({
    [`GET /api/orders/${NO}`]: order(now, typeof changes === "function" ? changes(now) : changes),
    "GET /api/activities/range": activity(now, sale),
  }),
  ...more,
});

const paid = (now) => ({ status: "paid", paid_at: time(now - 60_000) });
const opened = { checkout_url: "https://pay.example/s" };
const free = { amount: 0 };

/** As if this tab had sent an address. */
const withAddress = (page) => page.evaluate((key) => sessionStorage.setItem(key, '["Mia Example","12345 Town","DE"]'), `stampede.sent_to.${NO}`)
  .then(() => page.reload());

/** As if the sign-in could not be renewed. */
const overdue = (page) => page.evaluate(() => localStorage.setItem("stampede.renew_at", String(Date.now() - 60_000)));

const LINE = { line: { mode: "waitlist", offer_seconds: 300 } };

export const orderPage = [
  state("waiting", { status: "waiting", ahead: 120 }, { sale: LINE, isFull: true }),
  state("waiting, sign-in ends", { status: "waiting" }, { sale: LINE, act: overdue, until: "#renew" }),
  state("leave?", { status: "waiting" }, { sale: LINE, act: (page) => page.getByTestId("cancel").click(), until: "dialog" }),
  state("left the line", { status: "cancelled", reason: "left_line" }),
  state("off the line", { status: "cancelled", reason: "limit_reached" }),
  state("ended while waiting", { status: "expired", reason: "sale_ended" }),
  state("queued", { status: "queued", ahead: 120, estimated_wait_ms: 150_000 }),
  state("to be paid", {}, { isFull: true }),
  state("no delivery", {}, { sale: { checkout: "none" } }),
  state("the provider asks", {}, { sale: { checkout: "provider" } }),
  state("address given", opened, { act: withAddress }),
  state("change the address", opened, { act: (page) => page.getByTestId("change-address").click() }),
  state("confirming", opened, { query: "&payment=done" }),
  state("declined", (now) => ({ ...opened, declined_at: time(now - 5_000) })),
  state("paid", paid, { act: (page) => withAddress(page).then(() => page.locator("summary").click()), isFull: true }),
  state("cancelled", { status: "cancelled" }),
  state("cancel?", {}, { act: (page) => page.getByTestId("cancel").click(), until: "dialog" }),
  state("expired", { status: "expired", reason: "not_paid_in_time" }),
  state("failed", { status: "failed", reason: "no_room_in_ledger" }),
  state("refunding", (now) => ({ ...paid(now), status: "refunding", reason: "paid_too_late" })),
  state("refunded", (now) => ({ ...paid(now), status: "refunded" })),
  state("free", free, { sale: { checkout: "none" } }),
  state("free, confirmed", (now) => ({ ...paid(now), ...free }), { sale: { checkout: "none" } }),
  { ...state("does not answer"), act: (page) => page.locator("#headline").waitFor().then(() => page.route(`**/api/orders/${NO}`, (route) => route.abort())).then(() => page.evaluate(() => dispatchEvent(new Event("online")))), until: '[data-testid="notice"]' },
  { ...state("signed out"), user: null, until: "#signed-out" },
  { ...state("missing"), answers: (now) => ({ "GET /api/activities/range": activity(now) }), until: "#missing" },
];

const listed = (now, index, changes) => order(now, { order_no: `${NO.slice(0, -1)}${index}`, created_at: time(now - index * 90_000_000), ...changes });

const STATUSES = ["waiting", "queued", "paid", "refunding", "refunded", "cancelled", "expired", "failed"];

const page = (items) => ({ items, next: null });

export const orders = [
  {
    name: "every status", path: "/orders", user: "mia", until: '[data-testid="order-link"]', isFull: true,
    answers: (now) => {
      const all = [listed(now, 0), ...STATUSES.map((status, index) => listed(now, index + 1, { status })), listed(now, 9, { ...free, status: "paid" })];
      return {
        "GET /api/orders": page(all), "GET /api/activities/range": activity(now),
        ...Object.fromEntries(all.map((shown) => [`GET /api/orders/${shown.order_no}`, shown])),
      };
    },
  },
  {
    name: "one to pay", path: "/orders", user: "mia", until: '[data-testid="order-pay"]',
    answers: (now) => ({ "GET /api/orders": page([order(now)]), [`GET /api/orders/${NO}`]: order(now), "GET /api/activities/range": activity(now) }),
  },
  { name: "none", path: "/orders", user: "mia", until: "#to-sales", answers: () => ({ "GET /api/orders": page([]) }) },
  { name: "signed out", path: "/orders", until: "#sign-in-here", answers: () => ({}) },
  {
    name: "sign-in failed", path: "/robots.txt", until: "#failed", answers: () => ({}),
    act: (page) => page.route("**/settings.json", (route) => route.abort()).then(() => page.goto("/signed-in")),
  },
];
