// Creates and updates elements. Strings become text nodes, never markup.

/**
 * Creates an element: `el("button", {type: "button", class: "primary", testid: "buy", onclick}, "Buy")`.
 * Skips null, undefined and false properties and children.
 */
export function el(tag, properties = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "testid") node.setAttribute("data-testid", value);
    else if (name === "value") node.value = value;
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...children.flat().filter((child) => child || child === 0));
  return node;
}

/** The element with this id. */
export const byId = (id) => document.getElementById(id);

/** Sets an element's text if it differs, so that screen readers announce only changes. */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** Shows or hides an element. */
export function setVisible(node, visible) {
  if (node.hidden === visible) node.hidden = !visible;
}

/** An image from the operator's URL, or the first letter of `name` if there is no URL or the image cannot be loaded. */
export function picture(url, name, size = "") {
  const placeholder = () =>
    el("span", { class: `picture letter ${size}`, "aria-hidden": "true" }, (name || "?").trim().charAt(0));
  if (!/^(https:\/\/|\/(?!\/)|data:image\/)/.test(url ?? "")) return placeholder();
  const image = el("img", { class: `picture ${size}`, src: url, alt: "", decoding: "async" });
  image.addEventListener("error", () => image.replaceWith(placeholder()), { once: true });
  return image;
}

/**
 * Shows a question in a dialog. Resolves to whether it was confirmed. `primary` is the answer that most should give, `yes`
 * or `no`: it comes last, below the thumb.
 */
export function confirmDialog(question, yes, no, primary = "yes") {
  const answer = (value, text) => el(
    "button", { class: `button ${value === primary ? "primary" : ""}`, value, testid: `dialog-${value}`, autofocus: value === primary }, text,
  );
  const answers = [answer("no", no), answer("yes", yes)];
  return new Promise((resolve) => {
    const dialog = el(
      "dialog",
      { class: "dialog", "aria-label": question },
      el(
        "form",
        { method: "dialog" },
        el("p", {}, question),
        el(
          "div",
          { class: "actions" },
          primary === "yes" ? answers : answers.reverse(),
        ),
      ),
    );
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(dialog.returnValue === "yes");
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}
