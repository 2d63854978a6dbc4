// The states of the list of sales.

const HOUR = 3_600_000;

const time = (milliseconds) => new Date(milliseconds).toISOString();

const entry = (now, id, title, zh, picture, startsIn, duration, more) => ({
  id, title, titles: { zh }, image: `/demo/${picture}.svg`, server_time: time(now), starts_at: time(now + startsIn), ends_at: time(now + startsIn + duration),
  phase: startsIn > 0 ? "scheduled" : startsIn + duration < 0 ? "ended" : "open", price: 4_900, currency: "EUR", sold_out: false, ...more,
});

const SCHEDULED = (now) => [
  entry(now, "next", "Rangefinder, series 2", "旁轴相机 第二代", "camera", 2 * HOUR, HOUR, { price: 189_900 }),
  entry(now, "later", "Pocket projector", "口袋投影仪", "print", 26 * HOUR, HOUR, { price: 29_900 }),
  entry(now, "last", "A year of film, with a title that takes its space", "全年胶卷套装", "film", 99 * HOUR, HOUR),
];
const RUNNING = (now) => [
  entry(now, "film", "Film, two packs", "胶卷两盒", "film", -HOUR, 3 * HOUR, { price: 2_499, left: 803, total: 1_000 }),
  entry(now, "shirt", "Darkroom shirt", "暗房 T 恤", "print", -HOUR, 3 * HOUR, { left: 7, total: 200 }),
  entry(now, "body", "Rangefinder, series 1", "旁轴相机 第一代", "camera", -HOUR, 3 * HOUR, { price: 149_900, left: 0, total: 100, sold_out: true }),
  entry(now, "paused", "Prints of the year", "年度摄影作品", "print", -HOUR, 3 * HOUR, { phase: "paused", price: 0 }),
];
const ENDED = (now) => [
  entry(now, "old", "Strap, saddle leather", "皮革背带", "film", -50 * HOUR, HOUR),
  entry(now, "older", "Lens cap", "镜头盖", "camera", -99 * HOUR, HOUR),
];

const state = (name, ...groups) => ({
  name, path: "/", isFull: true, until: '[data-testid="sale-link"]', answers: (now) => ({ "GET /api/activities": { items: groups.flatMap((group) => group(now)), next: null } }),
});

export const list = [
  state("everything", SCHEDULED, RUNNING, ENDED),
  { ...state("ended unfolded", SCHEDULED, ENDED), act: (page) => page.locator("summary").click() },
  state("only running", RUNNING),
  { ...state("empty"), until: "#none" },
  { ...state("no answer"), answers: () => ({ "GET /api/activities": [503, { status: 503, code: "not_ready" }] }), until: "#trouble" },
];
