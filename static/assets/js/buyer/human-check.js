// Solves the human check of an activity: a proof of work, a visual puzzle, or a hosted widget.

import { byId, setText, setVisible } from "../shared/dom.js";
import { sentences, t } from "../shared/i18n.js";
import { solveHostedCheck } from "./hosted-check.js";
import { showPuzzle } from "./puzzle.js";
import { solveProofOfWork } from "./proof-of-work.js";

/** What the visitor asked for last, and gets after a wrong answer, too. */
let options = {};

/** Whether a check waits for the visitor. */
export const isCheckPending = () => byId("check")?.querySelector("[data-waits]") != null;

/** Whether the visitor has the check in front of them. */
export const isCheckOpen = () => byId("check-close")?.hidden === false;

/** Makes the box of the check closable. */
export function startCheckBox() {
  byId("check-close").addEventListener("click", () => {
    setOpen(false);
    byId("buy").focus();
  });
}

/** Leads the visitor to the check that waits, and says that it comes first. */
export function goToCheck() {
  setOpen(true);
  setText(byId("check-status"), "");
  setText(byId("check-status"), t("check.first"));
  byId("check").querySelector("#puzzle-answer, button, iframe").focus();
}

function setOpen(isOpen) {
  byId("check-box").classList.toggle("is-open", isOpen);
  setVisible(byId("check"), isOpen);
  setVisible(byId("check-close"), isOpen);
  if (!isOpen) setText(byId("check-status"), "");
}

const closeIfEmpty = () => byId("check").childElementCount || setOpen(false);

/**
 * Solves what `challenge(options)` requests. Resolves to the members to add to the ticket request. `wasWrong` says
 * whether the visitor's last answer was wrong.
 */
export async function solveHumanCheck({ challenge, wasWrong }) {
  const container = byId("check");
  const onStatus = (text) => setText(byId("check-status"), wasWrong && text ? sentences(t("check.wrong"), text) : text);
  setOpen(true);
  try {
    for (;;) {
      onStatus(t("check.working"));
      const data = await challenge(options);
      const result = data.hosted ? await solveHostedCheck(data.hosted, container, onStatus)
        : data.captcha ? await showPuzzle(data.captcha, container, onStatus) : { proof: { altcha: await solveProofOfWork(data, container, closeIfEmpty) } };
      if (result.proof) return result.proof;
      options = result.options;
    }
  } finally {
    onStatus("");
    closeIfEmpty();
  }
}
