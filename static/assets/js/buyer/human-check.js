// Solves the human check of an activity: a proof of work, a visual puzzle, or a hosted widget.

import { t } from "../shared/i18n.js";
import { solveHostedCheck } from "./hosted-check.js";
import { showPuzzle } from "./puzzle.js";
import { solveProofOfWork } from "./proof-of-work.js";

/**
 * Solves what `challenge(options)` requests. Resolves to the members to add to the ticket request.
 * The widget or puzzle is shown in `container`; `onStatus(text)` is called with a text for the visitor.
 */
export async function solveHumanCheck(challenge, { container, onStatus }) {
  let options = {};
  for (;;) {
    onStatus(t("check.working"));
    const data = await challenge(options);
    if (data.hosted) return { hosted: await solveHostedCheck(data.hosted, container, onStatus) };
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
