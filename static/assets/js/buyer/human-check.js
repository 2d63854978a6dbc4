// Solves the human check that a sale asks for: work for the processor, or a picture for the eyes.

import * as api from "../shared/api.js";
import { t } from "../shared/i18n.js";
import { showPuzzle } from "./puzzle.js";
import { solveProofOfWork } from "./proof-of-work.js";

/**
 * Gets a challenge and solves it; resolves to the members that the request for a ticket carries.
 * `place` is where it is shown, `onCheck(text)` says what is going on.
 */
export async function solveHumanCheck(activity, token, { container, onStatus }) {
  let options = {};
  for (;;) {
    onStatus(t("check.working"));
    const { data } = await api.challenge(activity, token, options);
    if (!data.captcha) {
      const altcha = await solveProofOfWork(data, container);
      onStatus("");
      return { altcha };
    }
    const { answer, otherKind } = await showPuzzle(data.captcha, container, onStatus);
    if (answer) return { captcha: answer };
    options = { captcha: otherKind };
  }
}
