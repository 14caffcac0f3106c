"use strict";
// Tables: a click on a heading sorts by its column, largest number or first word first; a second click reverses.
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells], body = table.tBodies[0];
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.append(...head.childNodes);
    head.append(button);
    const key = (row) => row.cells[column].dataset.value ?? row.cells[column].textContent;
    const number = (row) => parseFloat(key(row).replaceAll(",", ""));
    button.addEventListener("click", () => {
      const rows = [...body.rows], numeric = rows.every((row) => key(row) === "" || !isNaN(number(row)));
      const before = head.getAttribute("aria-sort");
      const order = before ? (before === "ascending" ? "descending" : "ascending") : numeric ? "descending" : "ascending";
      const sign = order === "ascending" ? 1 : -1, last = (row) => key(row) === "";
      rows.sort((a, b) => last(a) - last(b) || sign * (numeric ? number(a) - number(b) : key(a).localeCompare(key(b))));
      body.append(...rows);
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", order);
    });
  });
}

// Charts: uPlot draws the descriptions in the page; where scripts are off, and on paper, their SVG remains.
const root = getComputedStyle(document.documentElement);
const colour = (name) => () => root.getPropertyValue(`--${name}`).trim();
const exact = new Intl.NumberFormat("en", {maximumSignificantDigits: 5});
const SCALES = {linear: {distr: 1}, log: {distr: 3, log: 10}, asinh: {distr: 4, asinh: 10}};
const charts = [];

function short(value) {
  for (const [size, letter] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]])
    if (Math.abs(value) >= size && Math.abs(value) < 1000 * size) return +(value / size).toPrecision(3) + letter;
  return `${+value.toPrecision(3)}`;
}

/** Return the ticks of an axis that is not linear: powers of ten, with their multiples by 2 and 5 if they are few. */
function powers(u, i, min, max) {
  const is_log = u.scales["xy"[i]].distr === 3, parts = is_log && max < 100 * min ? [1, 2, 5] : [1], found = [];
  for (let p = is_log ? Math.floor(Math.log10(min)) : 1; 10 ** p <= Math.max(max, -min); p++)
    for (const part of parts) found.push(part * 10 ** p);
  return (is_log ? found : [...found.map((tick) => -tick).reverse(), 0, ...found]).filter((tick) => tick >= min && tick <= max);
}

/** Return the series over one sorted x, with gaps: points of equal x share a place unless they are of one series. */
function aligned({x, series}) {
  const points = series.flatMap((each, s) => each.y.map((y, i) => [(each.x ?? x)[i], s, y, i])).sort((a, b) => a[0] - b[0]);
  const data = [[], ...series.map(() => [])], tips = [];
  for (const [at, s, y, i] of points) {
    let place = data[0].length - 1;
    while (place >= 0 && data[0][place] === at && data[s + 1][place] !== undefined) place--;
    if (place < 0 || data[0][place] !== at) {
      place = data[0].push(at) - 1;
      for (const values of data.slice(1)) values.push(undefined);
    }
    data[s + 1][place] = y;
    if (series[s].tips) tips[place] = series[s].tips[i];
  }
  return {data, tips};
}

function drawn(figure) {
  const chart = JSON.parse(figure.querySelector("script").textContent), {axes, height} = chart;
  const {data, tips} = aligned(chart);
  const width = () => Math.floor(figure.querySelector("figcaption")?.clientWidth || figure.clientWidth - 30);
  const axis = ({label, unit, scale}, size) => ({label, size, stroke: colour("muted"), grid: {stroke: colour("line"), width: 1},
    ticks: {show: false}, labelSize: 18, labelGap: 0, labelFont: "12px system-ui", font: "12px system-ui", ...(scale === "linear" ? {} : {splits: powers}),
    filter: (u, ticks) => ticks, values: (u, ticks) => ticks.map((tick) => short(tick) + (unit && ` ${unit}`))});
  const value = (unit) => (u, v) => v === null || v === undefined ? "" : exact.format(v) + (unit && ` ${unit}`);
  const series = chart.series.map(({label, draw, colour: name, tips: told}) => {
    const found = {label, spanGaps: true, stroke: colour(name), width: 2, value: value(axes.y.unit)};
    if (draw === "guide") Object.assign(found, {dash: [5, 4], width: 1, points: {show: false}});
    if (draw === "line") found.points = {show: false};
    if (draw === "both") found.points = {show: true, size: 6, fill: colour(name)};
    if (draw === "dots") Object.assign(found, {paths: () => null, points: {show: true, size: 5, fill: colour(name)}});
    if (draw === "marks") Object.assign(found, {paths: () => null, value: (u, v, s, i) => tips[i] ?? "",
      points: {show: true, size: 22, width: 2, fill: colour("surface")}});
    if (draw === "bars") Object.assign(found, {paths: uPlot.paths.bars({size: [0.6, 60]}), fill: colour(name), points: {show: false}});
    if (draw === "stems") Object.assign(found, {paths: uPlot.paths.bars({size: [1, 2]}), fill: colour(name),
      points: {show: true, size: 9, fill: colour(name)}, value: (u, v, s, i) => tips[i] ?? ""});
    return found;
  });
  const named = (u) => chart.series.forEach(({draw}, s) => {
    if (draw !== "marks") return;
    Object.assign(u.ctx, {fillStyle: colour("ink")(), textAlign: "center", textBaseline: "middle", font: `${12 * devicePixelRatio}px system-ui`});
    data[s + 1].forEach((y, i) => y === undefined || u.ctx.fillText(tips[i], u.valToPos(data[0][i], "x", true), u.valToPos(y, "y", true)));
  });
  const all = {x: [axes.x.low, axes.x.high], y: [axes.y.low, axes.y.high]};
  const ends = [data[0][0], data[0].at(-1)];
  const plot = new uPlot({
    width: width(), height, series: [{label: axes.x.label, value: value(axes.x.unit)}, ...series],
    axes: [axis(axes.x, 30), axis(axes.y, (u, ticks) => 18 + 7 * Math.max(3, ...(ticks ?? []).map((tick) => tick.length)))], hooks: {draw: [named]}, legend: {markers: {width: 0, fill: (u, s) => u.series[s].stroke()}},
    cursor: {drag: {x: true, y: true, uni: 40}, points: {show: false}},
    scales: {x: {time: false, ...SCALES[axes.x.scale], range: (u, low, high) => low <= ends[0] && high >= ends[1] ? all.x : [low, high]},
             y: {...SCALES[axes.y.scale], range: () => all.y}},
  }, data, figure);
  figure.insertBefore(plot.root, figure.querySelector("figcaption"));
  plot.root.setAttribute("role", "img");
  plot.root.setAttribute("aria-label", chart.title);
  for (const [s, {draw, label}] of chart.series.entries())
    if (draw === "guide" || !label) plot.root.querySelectorAll(".u-legend .u-series")[s + 1].remove();
  figure.classList.add("live");
  charts.push(plot);
  new ResizeObserver(() => { if (width() > 0 && width() !== plot.width) plot.setSize({width: width(), height}); }).observe(figure);
}

(async () => {
  const bytes = Uint8Array.from(atob(document.getElementById("uplot").textContent), (letter) => letter.charCodeAt(0));
  const script = document.createElement("script");
  script.textContent = await new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"))).text();
  document.head.append(script);
  const waiting = new ResizeObserver((entries) => {  // a chart in closed details has no width yet
    for (const {target, contentRect} of entries) if (contentRect.width) { waiting.unobserve(target); drawn(target); }
  });
  const figures = document.querySelectorAll("figure.chart");
  for (const figure of figures) waiting.observe(figure);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => charts.forEach((chart) => chart.redraw()));
  const hint = document.createElement("p");
  hint.className = "hint";
  hint.textContent = "Charts: point at them to read values, drag to zoom, double-click to reset. Tables: click a heading to sort.";
  if (figures.length) document.querySelector("header").append(hint);
})();
