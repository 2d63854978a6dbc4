// Says that the page cannot run where its modules do not load: in browsers without modules, their syntax or what they
// use, and after a failed download. A classic script in syntax that every browser knows; in both languages, because the modules that
// choose one did not load.

(function () {
  function tell(event) {
    // Pictures and styles may be missing.
    if (event.target.tagName && event.target.tagName !== "SCRIPT") return;
    if (document.documentElement.hasAttribute("data-started")) return;
    show();
  }
  function show() {
    if (document.getElementById("unsupported")) return;
    var notice = document.createElement("p");
    notice.id = "unsupported";
    notice.className = "notice";
    notice.setAttribute("role", "alert");
    notice.setAttribute("data-tone", "bad");
    notice.textContent =
      "This page needs a newer browser, or did not load completely. Reload it, or open it in another browser. " +
      "此页面需要较新的浏览器，或未能完整加载。请刷新，或换用其他浏览器打开。";
    document.body.insertBefore(notice, document.getElementById("main"));
  }
  // A module that does not load fires its event at its element, a module that fails, at the window.
  window.addEventListener("error", tell, true);
  window.addEventListener("unhandledrejection", tell);
  // Safari 15.0 to 15.3 knows modules, but no dialogs.
  if (!("noModule" in HTMLScriptElement.prototype) || !window.HTMLDialogElement || !Array.prototype.at) {
    document.addEventListener("DOMContentLoaded", show);
  }
})();
