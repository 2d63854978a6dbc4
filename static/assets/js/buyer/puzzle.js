// A puzzle for the eyes: a piece to slide into its gap, or a sum in a picture.

import { el } from "../shared/dom.js";
import { t } from "../shared/i18n.js";

/** Shows `captcha` in `place`; resolves to the answer that the server checks. */
export function puzzle(captcha, place, onCheck) {
  return new Promise((resolve) => {
    const slide = captcha.kind === "slider";
    onCheck(t(slide ? "check.slide" : "check.sum"));
    const input = slide ? slider(captcha) : sum();
    const form = el(
      "form",
      { class: "puzzle card", "aria-label": t("check.title"), testid: "puzzle" },
      el("div", { class: "puzzle-board" }, el("img", { src: captcha.image, alt: "" }), slide && input.piece),
      el("label", { for: "puzzle-answer" }, t(slide ? "check.position" : "check.answer")),
      input.field,
      el("button", { class: "button primary" }, t("check.send")),
    );
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      form.remove();
      onCheck(t("check.done"));
      resolve({ id: captcha.id, answer: Number(input.field.value) });
    });
    place.replaceChildren(form);
    input.field.focus();
  });
}

function sum() {
  return {
    field: el("input", { id: "puzzle-answer", inputmode: "numeric", autocomplete: "off", required: true, pattern: "-?[0-9]+" }),
  };
}

function slider(captcha) {
  const piece = el("img", { class: "puzzle-piece", src: captcha.piece, alt: "" });
  piece.style.top = `${captcha.y ?? 0}px`;
  const field = el("input", { id: "puzzle-answer", type: "range", min: 0, max: captcha.width, step: 1, value: 0 });
  field.addEventListener("input", () => (piece.style.left = `${field.value}px`));
  return { field, piece };
}
