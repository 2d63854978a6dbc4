// A list of counts by name, such as orders by status.

import { byId, el } from "../../shared/dom.js";
import { count } from "../../shared/format.js";
import { show } from "../parts.js";
import { hasText, t } from "../words.js";

/** Shows the counts that are not zero, if they have changed. The words of a name have the key `prefix.name`. */
export function showCounts(id, prefix, counts = {}) {
  const entries = Object.entries(counts).filter(([, value]) => value);
  const word = (name) => (hasText(`${prefix}.${name}`) ? t(`${prefix}.${name}`) : name);
  show(byId(id), entries, () => (entries.length
    ? entries.map(([name, value]) => [el("dt", {}, word(name)), el("dd", { testid: `${prefix}-${name}` }, count(value))])
    : prefix === "refused" && [el("dt", {}, t("none")), el("dd", {}, "0")]));
}
