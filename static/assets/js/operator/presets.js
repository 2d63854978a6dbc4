// Beginnings of a new sale: the fields that a kind of sale sets.

const MINUTES = (number) => ({ "pay-timeout": String(number), "pay-timeout-unit": "minutes" });

export const PRESETS = {
  drop: { ...MINUTES(5), "per-user": "1", check: "pow", checkout: "form", skus: {} },
  tickets: { ...MINUTES(10), "per-user": "4", check: "pow", checkout: "none", skus: {} },
  free: { ...MINUTES(5), "per-user": "1", check: "pow", checkout: "none", refund: "0", "refund-unit": "days", skus: { price: "0" } },
  members: { ...MINUTES(10), "per-user": "2", check: "none", checkout: "form", members: true, skus: {} },
};
