// The states of the sale page.

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;

const PATH = "/api/activities/drop";

const time = (milliseconds) => new Date(milliseconds).toISOString();

const CAMERA = {
  sku: "body", name: "Rangefinder body", names: { zh: "旁轴相机机身" }, image: "/demo/camera.svg", price: 189_900, currency: "EUR", total: 400, left: 212,
};
const SIZES = ["S", "M", "L", "XL"].map((name, index) => ({
  sku: name, name, item: "Darkroom shirt", items: { zh: "暗房 T 恤" }, image: "/demo/print.svg", price: 4_900, currency: "EUR", total: 50, left: [12, 0, 31, 3][index],
}));
const FILM = { sku: "film", name: "Film, two packs", names: { zh: "胶卷两盒" }, image: "/demo/film.svg", price: 2_499, currency: "EUR", total: 1_000, left: 803 };

/** The answers of a sale that starts in `startsIn` milliseconds; `gate` and `changes` are members of its documents. */
function answersOf({ startsIn = -MINUTE, duration = HOUR, skus = [CAMERA, ...SIZES, FILM], gate = {}, more = {}, ...changes }) {
  return (now) => {
    const [startsAt, endsAt] = [now + startsIn, now + startsIn + duration];
    const phase = startsIn > 0 ? "scheduled" : startsIn + duration < 0 ? "ended" : "open";
    const times = { phase, server_time: time(now), starts_at: time(startsAt), ends_at: time(endsAt), version: 1, ...(gate.phase && { phase: gate.phase }) };
    return {
      [`GET ${PATH}`]: {
        id: "drop", title: "Rangefinder, series 2", titles: { zh: "旁轴相机 第二代" }, image: "/demo/camera.svg",
        description: "Four thousand made, none made again. Ships from Berlin within 3 days.",
        descriptions: { zh: "限量四千台，不再生产。三天内从柏林发货。" },
        per_user: 2, pay_timeout_seconds: 300, pay_extension_seconds: 300, refund_window_seconds: 14 * 86_400, human_check: "none",
        max_wait_seconds: 300, checkout: "form", eligibility: { members_only: false, min_level: 0, invited_only: false, codes: false },
        ...times, ...changes, skus: skus.map((sku) => ({ as_of: time(now), ...sku })),
      },
      [`GET ${PATH}/gate.json`]: { jitter_ms: 100, sold_out: skus.filter(({ left }) => left === 0).map(({ sku }) => sku), ...(phase === "open" && { start_key: "k" }), ...times, ...gate },
      [`POST ${PATH}/ticket`]: [201, { ticket: "1.x", order_no: "drop.01JX", expires_at: time(now + HOUR) }],
      "GET /api/activities": page([
        { id: "next", title: "Pocket projector", titles: { zh: "口袋投影仪" }, image: "/demo/print.svg", phase: "scheduled", starts_at: time(now + 24 * HOUR), ends_at: time(now + 25 * HOUR), server_time: time(now), price: 29_900, currency: "EUR", sold_out: false },
      ]),
      "GET /api/orders": page([]),
      ...Object.fromEntries(Object.entries(more).map(([route, answer]) => [route, typeof answer === "function" ? answer(now) : answer])),
    };
  };
}

const state = (name, changes = {}, { user = "mia", until = "#buy[data-action]", ...rest } = {}) =>
  ({ name, path: "/sale?activity=drop", answers: answersOf(changes), user, until, ...rest });

const page = (items) => ({ items, next: null });

const READY = "#step-ticket.is-done";
const CAN_BUY = '#buy[data-action="buy"]';
const NEXT = '#buy[data-action="next"] :text-matches("projector|投影仪")';
const ORDERS = `POST ${PATH}/orders`;
const refusal = (status, code, more = {}) => [status, { status, code, ...more }];
const tapBuy = (page) => page.locator(`${CAN_BUY}:enabled`).click();
const soldOut = [CAMERA, ...SIZES, FILM].map((sku) => ({ ...sku, left: 0 }));

const waited = soldOut.map((sku) => ({ ...sku, waiting: 12 }));
const LINE = { line: { mode: "waitlist", offer_seconds: 300 }, gate: { sold_out: [] } };
const CAN_JOIN = '#buy[data-action="join"]';

const image = (body, width, height) =>
  `data:image/svg+xml,${encodeURIComponent(`<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}">${body}</svg>`)}`;
const PUZZLE = {
  kind: "slider", id: "1", width: 320, height: 160, y: 50, piece_size: 48,
  image: image('<rect width="320" height="160" fill="#9fb8ad"/><circle cx="90" cy="70" r="60" fill="#e0c9a6"/><rect x="220" y="50" width="48" height="48" fill="#33443d"/>', 320, 160),
  piece: image('<rect width="48" height="48" rx="6" fill="#c98f5a"/>', 48, 48),
};
const SUM = { ...PUZZLE, kind: "sum", image: image('<rect width="320" height="160" fill="#e9e4da"/><text x="80" y="105" font-size="72">7 + 5</text>', 320, 160) };
const captcha = (puzzle) => ({ human_check: "captcha", more: { [`POST ${PATH}/challenge`]: { captcha: puzzle } } });
const PRESALE = {
  startsIn: 8 * MINUTE, eligibility: { members_only: false, min_level: 0, invited_only: false, codes: true },
  more: { [`POST ${PATH}/ticket`]: refusal(403, "not_eligible", { requires: "code" }) },
};
const ORDER = { order_no: "drop.01JX", sku: "body", quantity: 1, amount: 189_900, currency: "EUR" };
const hold = (page) => page.evaluate(() => localStorage.setItem("stampede.has_ordered.drop", "")).then(() => page.reload());

export const sale = [
  state("two days before, signed out", { startsIn: 51 * HOUR }, { user: null, isFull: true }),
  state("eight minutes before, ready", { startsIn: 8 * MINUTE }, { until: READY }),
  state("last minute", { startsIn: 45 * SECOND }, { until: READY }),
  state("last seconds", { startsIn: 8 * SECOND }, { until: READY }),
  state("open, signed out", {}, { user: null, until: CAN_BUY }),
  state("open, ready", {}, { until: CAN_BUY, isFull: true }),
  state("open, one SKU, few left", { skus: [{ ...CAMERA, left: 3 }] }, { until: CAN_BUY, isFull: true }),
  state("open, an option is chosen", {}, {
    until: CAN_BUY, isFull: true,
    act: async (page) => {
      await page.getByTestId("option").last().click();
      await page.getByTestId("more").nth(1).click();
    },
  }),
  state("announcement, long texts", {
    title: "An anniversary edition with a title that takes more lines than one, as titles do", titles: {},
    gate: { announcement: {
      en: "We start ten minutes late: the courier with the last two hundred bodies is stuck in traffic. Nobody loses an entry pass, and everything else stays as it was announced.",
      zh: "抱歉，开售推迟十分钟：运送最后两百台机身的快递堵在路上。已领取的抢购资格不受影响，其余安排不变。",
    } },
  }, { until: CAN_BUY }),
  state("sending", { more: { [ORDERS]: null } }, { act: tapBuy, until: '#buy[data-action=""]' }),
  state("busy", { more: { [ORDERS]: refusal(503, "overloaded") } }, { act: tapBuy, until: '#buy[data-action=""]' }),
  state("accepted", { more: { [ORDERS]: [202, { ...ORDER, status: "queued", ahead: 3 }] } }, {
    until: '#buy[data-tone="good"]',
    act: async (page) => {
      // The page stays.
      await page.route("**/order?*", (route) => route.fulfill({ status: 204 }));
      await tapBuy(page);
    },
  }),
  state("somebody was faster", { more: { [ORDERS]: refusal(409, "sold_out") } }, { act: tapBuy, until: "#notice" }),
  state("limit reached", { more: { [ORDERS]: refusal(409, "limit_reached") } }, { act: tapBuy, until: '#buy[data-action="orders"]' }),
  state("order to pay", { more: { "GET /api/orders": (now) => page([{ ...ORDER, status: "pending_payment", pay_by: time(now + 4 * MINUTE) }]) } }, {
    act: hold, until: '#buy[data-action="order"]',
  }),
  state("chosen SKU sold out", { skus: [CAMERA, ...SIZES, FILM].map((sku) => (sku === FILM ? sku : { ...sku, left: 0 })) }, {
    act: (page) => page.getByTestId("sku").first().click(), until: '#buy[data-action="left"]',
  }),
  state("waitlist, signed out", { ...LINE, skus: waited }, { user: null, until: CAN_JOIN, isFull: true }),
  state("waitlist", { ...LINE, skus: [{ ...CAMERA, left: 0, waiting: 0 }] }, { until: CAN_JOIN }),
  state("waitlist of one item", { ...LINE, skus: [{ ...waited[0], waiting: 12_345 }, FILM] }, { act: (page) => page.getByTestId("sku").first().click(), until: CAN_JOIN }),
  state("on the waitlist", { ...LINE, skus: waited, more: { "GET /api/orders": page([{ ...ORDER, status: "waiting" }]) } }, {
    act: hold, until: '#buy[data-action="order"]',
  }),
  state("sold out, arriving late", { skus: soldOut }, { until: NEXT, isFull: true }),
  state("paused", { gate: { phase: "paused", start_key: undefined } }),
  state("ended", { startsIn: -3 * HOUR }, { until: NEXT, isFull: true }),
  state("members only, signed out", { startsIn: 8 * MINUTE, eligibility: { members_only: true, min_level: 2, invited_only: false } }, { user: null }),
  state("members only, not eligible", {
    startsIn: 8 * MINUTE, eligibility: { members_only: true, min_level: 0, invited_only: false },
    more: { [`POST ${PATH}/ticket`]: refusal(403, "not_eligible", { requires: "members" }) },
  }, { until: ".who.is-refused" }),
  state("presale code", PRESALE, { until: '#buy[data-action="code"]' }),
  state("presale code, wrong", PRESALE, {
    until: '#code-note[data-tone="bad"]', isFull: true,
    act: async (page) => {
      await page.getByTestId("code").fill("FRIENDS-2026");
      await page.getByTestId("code-use").click();
    },
  }),
  state("check, puzzle", { startsIn: 8 * MINUTE, ...captcha(PUZZLE) }, { until: ".puzzle" }),
  state("check, tapped while open", captcha(SUM), { until: ".puzzle", act: (page) => page.locator('#buy[data-action="check"]').click() }),
  state("check, closed", captcha(PUZZLE), { until: '#buy[data-action="check"]', act: (page) => page.getByTestId("check-close").click() }),
  state("no connection", {}, {
    until: "#notice",
    act: async (page) => {
      await page.locator(CAN_BUY).waitFor();
      await page.unroute("**/api/**");
      await page.route("**/api/**", (route) => route.abort());
      await page.evaluate(() => dispatchEvent(new Event("online")));
    },
  }),
  state("getting ready", { skus: [{ ...CAMERA, left: null, as_of: null }] }),
  state("unlimited and free", { skus: [{ ...FILM, name: "Day pass", names: { zh: "单日通行证" }, price: 0, total: -1, left: -1 }], checkout: "none" }, { until: CAN_BUY, isFull: true }),
  { ...state("unknown"), answers: () => ({}), until: "#missing" },
];
