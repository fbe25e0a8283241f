"use strict";

/** Returns the button that changes between light and dark. */
function themeButton() {
  const root = document.documentElement;
  const button = make("button", "theme");
  button.type = "button";
  const dark = () => {
    const chosen = root.dataset.theme;
    return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  };
  const say = () => {
    button.textContent = dark() ? "☀ Light" : "☾ Dark";
    button.setAttribute("aria-label", `Switch to ${dark() ? "light" : "dark"} colours`);
  };
  button.addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    say();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", say);
  say();
  return button;
}
