// Measures the page it is added to: texts that are cut off, that lie over others, that are too small or too faint.
"use strict";
(() => {
  const problems = [];
  const say = (what, element) => problems.push(`${what}: ${(element.textContent || "").trim().slice(0, 60)}`);
  document.querySelectorAll("details").forEach((details) => { details.open = true; });

  const width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth > width) {
    problems.push(`the page is ${document.documentElement.scrollWidth} px wide`);
  }

  // Texts of the page: inside the window unless they scroll with their table, and not wider than their box.
  const texts = [...document.querySelectorAll("h1,h2,h3,p,li,th,td,dt,dd,figcaption,summary,footer")].filter((e) => e.textContent.trim());
  for (const text of texts) {
    const box = text.getBoundingClientRect();
    if (box.width === 0 || box.height === 0) { say("not visible", text); continue; }
    if (text.scrollWidth > text.clientWidth + 1 && getComputedStyle(text).display !== "inline") { say("cut off", text); }
    if (!text.closest(".scroll") && (box.right > width + 1 || box.left < -1)) { say("outside of the window", text); }
    if (parseFloat(getComputedStyle(text).fontSize) < 11.5) { say("too small", text); }
  }

  // Texts of the plots: inside their plot, none over another, and large enough to read.
  const over = (a, b) =>
    Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 2;
  for (const svg of document.querySelectorAll("figure svg")) {
    const frame = svg.getBoundingClientRect();
    const labels = [...svg.querySelectorAll("text")].map((element) => ({ element, box: element.getBoundingClientRect() }));
    if (!svg.querySelector("title").textContent || !svg.querySelector("desc").textContent) { say("a plot without a description", svg); }
    labels.forEach(({ element, box }, at) => {
      if (box.left < frame.left - 1 || box.right > frame.right + 1 || box.top < frame.top - 1 || box.bottom > frame.bottom + 1) {
        say("outside of its plot", element);
      }
      if (box.height < 9) { say("too small in its plot", element); }
      for (const other of labels.slice(at + 1)) {
        if (over(box, other.box)) { say(`lies over “${other.element.textContent}”`, element); }
      }
    });
  }

  // Contrast of text with what is behind it: at least 4.5 (WCAG 2, AA).
  const channel = (value) => { const c = value / 255; return c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4; };
  const luminance = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const rgb = (colour) => colour.match(/[\d.]+/g).map(Number);
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = rgb(getComputedStyle(at).backgroundColor);
      if (colour.length < 4 || colour[3] > 0) { return colour; }
    }
    return [255, 255, 255];
  };
  const contrast = (one, other) => {
    const [light, dark] = [luminance(one), luminance(other)].sort((a, b) => b - a);
    return (light + 0.05) / (dark + 0.05);
  };
  for (const element of [...texts, ...document.querySelectorAll("small,.unit,svg text")]) {
    const style = getComputedStyle(element);
    const colour = element.closest("svg") ? style.fill : style.color;
    if (contrast(rgb(colour), behind(element)) < 4.5) { say(`faint (${colour})`, element); }
  }

  const dark = luminance(behind(document.body)) < 0.2;
  parent.postMessage({ width, dark, texts: texts.length, problems: [...new Set(problems)].slice(0, 30) }, "*");
})();
