// SPDX-License-Identifier: Apache-2.0
// Fetches what changes of the page again and again, and sends described packets.
"use strict";
const live = document.getElementById("live");
const paused = document.getElementById("paused");
const state = document.getElementById("state");
const form = document.getElementById("packet");
const answer = document.getElementById("answer");
const PERIOD = 2000;

// What the reader has opened and chosen stays.
function keep() {
  const open = [...live.querySelectorAll("details")].map((d) => d.open);
  const chosen = live.querySelector("input:checked");
  const numbers = new Map();
  for (const row of live.querySelectorAll("tr[id]")) numbers.set(row.id, row.cells[0].textContent);
  return { open, chosen: chosen && chosen.id, numbers };
}

function restore(kept) {
  const details = live.querySelectorAll("details");
  if (details.length === kept.open.length) details.forEach((d, i) => { d.open = kept.open[i]; });
  const chosen = kept.chosen && document.getElementById(kept.chosen);
  if (chosen) chosen.checked = true;
  for (const row of live.querySelectorAll("tr[id]")) {
    const before = kept.numbers.get(row.id);
    if (before !== undefined && before !== row.cells[0].textContent) row.classList.add("moved");
  }
}

async function refresh() {
  if (!paused.checked && !document.hidden) {
    try {
      const response = await fetch("body", { cache: "no-store" });
      if (!response.ok) throw new Error(response.statusText);
      const text = await response.text();
      const kept = keep();
      const [x, y] = [scrollX, scrollY];
      live.innerHTML = text;
      restore(kept);
      scrollTo(x, y);
      state.textContent = new Date().toLocaleTimeString();
    } catch (error) {
      state.textContent = "no answer";
    }
  }
  setTimeout(refresh, PERIOD);
}

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  try {
    const response = await fetch("packet", { method: "POST", body: new URLSearchParams(new FormData(form)) });
    answer.textContent = await response.text();
  } catch (error) {
    answer.textContent = "no answer";
  }
  answer.hidden = false;
});

setTimeout(refresh, PERIOD);
