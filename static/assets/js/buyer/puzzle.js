// A puzzle for the eyes: a piece to slide into its gap, or a sum in a picture.

import { el, say } from "../shared/dom.js";
import { t } from "../shared/i18n.js";

/** Samples of a slide that are kept: more tell nothing. */
const MOST_SAMPLES = 300;

/**
 * Shows `captcha` in `place`; resolves to `{answer}`, which the server checks, or to `{other}`: the
 * kind of puzzle that the visitor would rather have.
 */
export function puzzle(captcha, place, onCheck) {
  return new Promise((resolve) => {
    const slide = captcha.kind === "slider";
    const ask = t(slide ? "check.slide" : "check.sum");
    onCheck(ask);
    const input = slide ? slider(captcha) : sum();
    const done = (result) => {
      form.remove();
      onCheck(result.answer ? t("check.sent") : "");
      resolve(result);
    };
    const form = el(
      "form",
      { class: "puzzle card", "aria-label": t("check.title"), testid: "puzzle" },
      el("div", { class: "puzzle-board" }, el("img", { src: captcha.image, alt: "", class: "puzzle-picture" }), input.piece),
      el("label", { for: "puzzle-answer" }, t(slide ? "check.position" : "check.answer")),
      input.field,
      el(
        "div",
        { class: "actions" },
        el(
          "button",
          { type: "button", class: "button", testid: "puzzle-other", onclick: () => done({ other: slide ? "sum" : "slider" }) },
          t(slide ? "check.rather_sum" : "check.rather_slide"),
        ),
        el("button", { class: "button primary", testid: "puzzle-send" }, t("check.send")),
      ),
    );
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const answer = input.answer();
      // A piece that was hardly moved was not solved: nothing is spent on it.
      if (answer === null) return say(form.querySelector("label"), ask);
      done({ answer: { id: captcha.id, ...answer } });
    });
    place.replaceChildren(form);
    input.field.focus();
  });
}

function sum() {
  const field = el("input", {
    id: "puzzle-answer", inputmode: "numeric", autocomplete: "off", required: true, pattern: "-?[0-9]+",
  });
  return { field, answer: () => ({ answer: Number(field.value) }) };
}

/** The piece follows a range input, which fingers, mice and keyboards move alike. */
function slider(captcha) {
  const piece = el("img", { class: "puzzle-piece", src: captcha.piece, alt: "" });
  const share = (pixels, of) => `${(100 * pixels) / of}%`;
  piece.style.width = share(captcha.piece_size, captcha.width);
  piece.style.top = share(captcha.y, captcha.height);
  const field = el("input", {
    id: "puzzle-answer", type: "range", min: 0, max: captcha.width - captcha.piece_size, step: 1, value: 0,
  });
  const track = [];
  let startedAt = null;
  const note = () => {
    const now = performance.now();
    startedAt ??= now;
    if (track.length >= MOST_SAMPLES) track.splice(MOST_SAMPLES / 2, 1);
    track.push([Math.round(now - startedAt), Number(field.value)]);
  };
  for (const start of ["pointerdown", "keydown"]) field.addEventListener(start, () => startedAt === null && note());
  field.addEventListener("input", () => {
    piece.style.left = share(Number(field.value), captcha.width);
    note();
  });
  const answer = () => {
    const took = track.length > 0 ? track.at(-1)[0] : 0;
    return track.length < 4 || took < 250 ? null : { answer: Number(field.value), track };
  };
  return { field, piece, answer };
}
