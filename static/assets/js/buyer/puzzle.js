// Visual puzzles of the human check: a slider (move a piece into its gap) or a sum shown as an image.

import { el } from "../shared/dom.js";
import { t } from "../shared/i18n.js";

/** Maximum number of samples of a slider movement that are sent to the server. */
const MAX_SAMPLES = 300;

/**
 * Shows `captcha` in `container`. Resolves to `{proof}` with the answer, which the server checks, or to `{options}` of
 * another challenge that the visitor asks for.
 */
export function showPuzzle(captcha, container, onStatus) {
  return new Promise((resolve) => {
    const isSlider = captcha.kind === "slider";
    const question = t(isSlider ? "check.slide" : "check.sum");
    onStatus(question);
    const input = isSlider ? sliderInput(captcha) : sumInput();
    const finish = (result) => {
      form.remove();
      onStatus(result.proof ? t("check.sent") : "");
      resolve(result);
    };
    const other = (testid, key, options) =>
      el("button", { type: "button", class: "plain", testid, onclick: () => finish({ options }) }, t(key));
    const form = el(
      "form",
      { class: "puzzle", "aria-label": t("check.title"), testid: "puzzle", "data-waits": "" },
      el("div", { class: "puzzle-board" }, el("img", { src: captcha.image, alt: "", class: "puzzle-picture" }), input.piece),
      el("label", { for: "puzzle-answer", class: "unseen" }, t(isSlider ? "check.position" : "check.answer")),
      input.field,
      el("button", { class: "button primary", testid: "puzzle-send" }, t("check.send")),
      el(
        "div",
        { class: "actions" },
        other("puzzle-other", isSlider ? "check.rather_sum" : "check.rather_slide", { captcha: isSlider ? "sum" : "slider" }),
        other("check-work", "check.rather_work", { work: true }),
      ),
    );
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const answer = input.answer();
      // The piece was hardly moved: ask again instead of sending a wrong answer, which would use up the challenge.
      if (answer === null) return onStatus(""), onStatus(question), input.field.focus();
      finish({ proof: { captcha: { id: captcha.id, ...answer } } });
    });
    container.replaceChildren(form);
    input.field.focus();
  });
}

function sumInput() {
  const field = el("input", {
    id: "puzzle-answer", inputmode: "numeric", autocomplete: "off", required: true, pattern: "-?[0-9]+",
  });
  return { field, answer: () => ({ answer: Number(field.value) }) };
}

/** The piece is dragged, or follows a range input, which works with touch, mouse and keyboard. */
function sliderInput(captcha) {
  const piece = el("img", { class: "puzzle-piece", src: captcha.piece, alt: "" });
  const percent = (pixels, total) => `${(100 * pixels) / total}%`;
  piece.style.width = percent(captcha.piece_size, captcha.width);
  piece.style.top = percent(captcha.y, captcha.height);
  const field = el("input", {
    id: "puzzle-answer", type: "range", min: 0, max: captcha.width - captcha.piece_size, step: 1, value: 0,
  });
  const track = [];
  let startedAt = null;
  const recordSample = () => {
    const now = performance.now();
    startedAt ??= now;
    if (track.length >= MAX_SAMPLES) track.splice(MAX_SAMPLES / 2, 1);
    track.push([Math.round(now - startedAt), Number(field.value)]);
  };
  for (const type of ["pointerdown", "keydown"]) field.addEventListener(type, () => startedAt === null && recordSample());
  field.addEventListener("input", () => {
    piece.style.left = percent(Number(field.value), captcha.width);
    recordSample();
  });
  dragPiece(piece, field, captcha.width);
  const answer = () => {
    const took = track.length > 0 ? track.at(-1)[0] : 0;
    return track.length < 4 || took < 250 ? null : { answer: Number(field.value), track };
  };
  return { field, piece, answer };
}

/** Lets the pointer move the piece; `width` is that of the picture, in the units of the input. */
function dragPiece(piece, field, width) {
  let from = null;
  piece.draggable = false;
  piece.addEventListener("pointerdown", ({ pointerId, clientX }) => {
    piece.setPointerCapture(pointerId);
    from = { clientX, value: Number(field.value) };
    field.dispatchEvent(new Event("pointerdown"));
  });
  piece.addEventListener("pointermove", ({ clientX }) => {
    if (from === null) return;
    field.value = from.value + ((clientX - from.clientX) * width) / piece.parentElement.clientWidth;
    field.dispatchEvent(new Event("input"));
  });
  for (const type of ["pointerup", "pointercancel"]) piece.addEventListener(type, () => (from = null));
}
