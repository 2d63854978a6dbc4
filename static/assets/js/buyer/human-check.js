// Solves the human check that a sale asks for: work for the processor, or a picture for the eyes.

import * as api from "../shared/api.js";
import { t } from "../shared/i18n.js";
import { puzzle } from "./puzzle.js";
import { work } from "./work.js";

/**
 * Gets a challenge and solves it; resolves to the members that the request for a ticket carries.
 * `place` is where it is shown, `onCheck(text)` says what is going on.
 */
export async function prove(activity, token, { place, onCheck }) {
  let wish = {};
  for (;;) {
    onCheck(t("check.working"));
    const { data } = await api.challenge(activity, token, wish);
    if (!data.captcha) {
      const altcha = await work(data, place);
      onCheck("");
      return { altcha };
    }
    const { answer, other } = await puzzle(data.captcha, place, onCheck);
    if (answer) return { captcha: answer };
    wish = { captcha: other };
  }
}
