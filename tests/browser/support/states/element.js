// The states of `<stampede-buy>`, played by the client's mock.

/** Plays a script of the mock in a page of one element. */
const play = (script, buys) => async (page) => {
  await page.evaluate(async (name) => {
    const { mockFetch } = await import("/client/v1/mock.js");
    globalThis.fetch = mockFetch(name);
    await import("/client/v1/element.js");
    const element = document.createElement("stampede-buy");
    Object.assign(element, { token: "mock" }).setAttribute("activity", "demo");
    document.body.replaceChildren(element);
  }, script);
  if (buys) await page.locator("stampede-buy button:enabled").click();
};

const state = (name, script, until, buys = true) =>
  ({ name, path: "/robots.txt", answers: () => ({}), act: play(script, buys), until: `stampede-buy ${until}` });

/** Those that last. */
export const element = [
  state("open", "paid", "button:enabled", false),
  state("to be paid", "queue", '[part=countdown] :text-matches("0[45]:")'),
];
