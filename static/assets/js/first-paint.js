// Chooses the page's language, and shows its texts, prices and times in that language before the first paint, long before
// the modules have loaded. Inlined into the pages' head; in syntax that every browser knows.

(function () {
  var root = document.documentElement;
  var chosen = null;
  try {
    chosen = localStorage.getItem("stampede.language");
  } catch (blocked) {
    // The browser's language it is.
  }
  var known = navigator.languages.find(function (tag) { return /^(en|zh)\b/i.test(tag); });
  var language = chosen || (/^zh/i.test(known) ? "zh" : "en");
  root.lang = language === "zh" ? "zh-CN" : "en";
  var words = document.querySelector("link[data-words=" + language + "]");
  if (words) words.rel = "modulepreload";
  root.setAttribute("data-early", "");

  /** Replaces the text of each matching element by what `format` returns for it, if that is a text. */
  function replaceTexts(selector, format) {
    document.querySelectorAll(selector).forEach(function (node) {
      node.textContent = format(node) || node.textContent;
    });
  }

  function showTexts() {
    var shop = document.getElementById("shop-texts");
    var shopTexts = (shop && JSON.parse(shop.textContent)[language]) || {};
    replaceTexts("[data-t], [data-" + language + "]", function (node) {
      return shopTexts[node.dataset.t] || node.dataset[language];
    });
  }

  function showNumbers() {
    var english = navigator.languages.find(function (tag) { return /^en/.test(tag); });
    var locale = language === "zh" ? "zh-CN" : english || "en";
    replaceTexts("data[data-currency]", function (node) {
      var digits = (node.value.split(".")[1] || "").length;
      return new Intl.NumberFormat(locale, {
        style: "currency", currency: node.dataset.currency, minimumFractionDigits: digits, maximumFractionDigits: digits,
      }).format(node.value);
    });
    var format;
    replaceTexts("time", function (node) {
      // Only where a page has times: a slow phone needs 40 ms for it.
      format = format || new Intl.DateTimeFormat(locale, { dateStyle: "medium", timeStyle: "short" });
      return format.format(new Date(node.dateTime));
    });
  }

  // The page is complete, and deferred scripts have not run.
  document.addEventListener("readystatechange", function () {
    try {
      showTexts();
      showNumbers();
    } catch (unsupported) {
      // A language tag that `Intl` does not know, or an old browser: what the server wrote stays.
    }
    root.removeAttribute("data-early");
  }, { once: true });
})();
