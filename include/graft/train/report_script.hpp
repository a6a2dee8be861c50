// The script of a page: buttons that copy commands, and pictures that a press makes large. Without it the page shows everything all the same.
#pragma once

#include "../config.hpp"

GRAFT_BEGIN_NAMESPACE
namespace detail {

// The one text that a page's policy lets run, which is the same on every page; what is shown is read from the page as text.
inline const char* report_script() {
    return R"js(
"use strict";
for (const code of document.querySelectorAll(".command")) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "copy";
  button.textContent = "Copy";
  button.setAttribute("aria-label", "Copy " + code.textContent);
  button.addEventListener("click", async () => {
    let copied = true;
    try {
      await navigator.clipboard.writeText(code.textContent);
    } catch {
      getSelection().selectAllChildren(code);
      copied = document.execCommand("copy");
    }
    button.textContent = copied ? "Copied" : "Marked: press Ctrl+C";
    setTimeout(() => { button.textContent = "Copy"; }, 1600);
  });
  code.after(button);
}
const scrolls = () => {
  for (const box of document.querySelectorAll(".scroll")) {
    if (box.scrollWidth <= box.clientWidth) continue;
    box.tabIndex = 0;
    box.setAttribute("role", "region");
    box.setAttribute("aria-label", box.closest("section,header").querySelector("h1,h2").textContent);
  }
};
scrolls();
addEventListener("resize", scrolls);
const dialog = document.createElement("dialog");
dialog.setAttribute("aria-label", "Picture, enlarged");
const large = document.createElement("img"), caption = document.createElement("p"), close = document.createElement("button");
close.type = "button";
close.className = "copy";
close.textContent = "Close";
close.addEventListener("click", () => dialog.close());
dialog.append(large, caption, close);
dialog.addEventListener("click", event => { if (event.target === dialog) dialog.close(); });
document.body.append(dialog);
for (const picture of document.querySelectorAll(".pictures img")) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "enlarge";
  button.setAttribute("aria-label", "Enlarge " + picture.alt);
  picture.replaceWith(button);
  button.append(picture);
  button.addEventListener("click", () => {
    large.src = picture.src;
    large.alt = picture.alt;
    large.className = picture.className;
    caption.textContent = picture.alt;
    dialog.showModal();
  });
}
)js";
}
// The SHA-256 of that text, as a Content-Security-Policy has it.
inline const char* report_script_hash() { return "sha256-vcsS7g8wusSS2eVZQZNz+bWImL/fvaZjWP50At9kzN4="; }

}  // namespace detail
GRAFT_END_NAMESPACE
