// Keeps the result beside the form up to date. Without this script the form's buttons do the same.
"use strict";

const form = document.getElementById("compose");
const result = document.getElementById("result");

let waiting;
let asking;

async function refresh() {
  asking?.abort();
  asking = new AbortController();
  const sent = new URLSearchParams();
  for (const [name, value] of new FormData(form)) {
    if (value !== "") sent.append(name, value);
  }
  const address = form.action + "?" + sent;
  try {
    const answer = await fetch(address, { headers: { "X-Part": "result" }, signal: asking.signal });
    if (!answer.ok) return;
    result.innerHTML = await answer.text();
    history.replaceState(null, "", address);
    addButtons();
  } catch (error) {
    if (error.name !== "AbortError") console.warn(error);
  }
}

// addButtons puts a button to copy beside each command.
function addButtons() {
  for (const code of document.querySelectorAll("pre > code")) {
    if (code.parentElement.querySelector("button")) continue;
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = "Copy";
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(code.textContent);
      button.textContent = "Copied";
      setTimeout(() => (button.textContent = "Copy"), 2000);
    });
    code.parentElement.append(button);
  }
}

if (form) {
  form.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(refresh, 250);
  });
}
if (navigator.clipboard) addButtons();
