"use strict";
// Makes the charts of the report interactive: values under the cursor, zoom, curves switched on and off, links to
// incidents. Without this script the page shows the same charts as pictures.
(() => {
  const root = document.documentElement;
  let data = JSON.parse(document.getElementById("data").textContent);
  const colour = (name) => getComputedStyle(root).getPropertyValue(name).trim();
  const plots = new Map();
  const HEIGHT = 200;

  // -- amounts, as the rest of the page writes them ---------------------------------------------------------------

  const digits = (value, count) => Number(value.toPrecision(count)).toLocaleString("en", { maximumFractionDigits: 9 });
  const bytes = (value, like) => {
    const units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let place = 0;
    for (let size = Math.abs(like); size >= 1000 && place < units.length - 1; size /= 1024) place += 1;
    return value === 0 ? "0" : `${digits(value / 1024 ** place, 3)} ${units[place]}`;
  };
  const seconds = (value, like) => {
    const [scale, name] = like >= 1 ? [1, "s"] : like >= 1e-3 ? [1e-3, "ms"] : [1e-6, "µs"];
    return value === 0 ? "0" : `${digits(value / scale, 3)} ${name}`;
  };
  const amount = (value, unit, like = value) => {
    if (unit === "bytes") return bytes(value, like);
    if (unit === "seconds") return seconds(value, Math.abs(like));
    if (unit === "ratio") return `${digits(value * 100, 3)} %`;
    if (unit === "celsius") return `${digits(value, 3)} °C`;
    return digits(value, 4);
  };
  // The clock of the machine that made the report, wherever it is read.
  const onClock = (at) => {
    const moved = new Date((at + data.offset) * 1e3);
    return new Date(moved.getTime() + moved.getTimezoneOffset() * 6e4);
  };
  const two = (number) => String(number).padStart(2, "0");
  const clock = (at, step) => {
    const day = onClock(at);
    if (step >= 86400) return day.toLocaleDateString("en-GB", { day: "numeric", month: "short" });
    const time = `${two(day.getHours())}:${two(day.getMinutes())}`;
    return step >= 60 ? time : `${time}:${two(day.getSeconds())}`;
  };
  const binarySteps = [];
  for (let power = 1; power < 2 ** 60; power *= 1024) for (const step of [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]) binarySteps.push(step * power);

  // -- one chart ----------------------------------------------------------------------------------------------------

  const columns = (chart) => [data.times, ...chart.curves.map((curve) => curve.values)];

  function options(chart, width) {
    const largest = (u) => u.scales.y.max ?? 1;
    return {
      width,
      height: HEIGHT,
      padding: [18, 34, null, null],  // the dots of the faults stand above the area
      tzDate: onClock,
      legend: { show: false },
      focus: { alpha: 0.25 },
      cursor: {
        sync: { key: "run", setSeries: false },
        drag: { x: true, y: false },
        y: false,
        points: { size: 6 },
        focus: { prox: 12 },  // the curve under the cursor stands out
      },
      scales: {
        x: { time: true, range: (u, low, high) => (low === null ? [data.begin, data.end] : [low, high]) },
        y: { range: (u, low, high) => (low === null ? [0, 1] : uPlot.rangeNum(chart.zero ? Math.min(low, 0) : low, high, 0.05, true)) },
      },
      axes: [
        {
          stroke: () => colour("--soft"),
          grid: { show: false },
          ticks: { show: false },
          space: 80,
          size: 32,
          values: (u, ticks, axis, space, step) => (u.ticks = ticks.map((at) => [at, clock(at, step)])).map(([, name]) => name),
        },
        {
          stroke: () => colour("--soft"),
          grid: { stroke: () => colour("--grid"), width: 1 },
          ticks: { show: false },
          size: 76,
          incrs: chart.unit === "bytes" ? binarySteps : undefined,
          values: (u, ticks) => ticks.map((value) => amount(value, chart.unit, largest(u))),
        },
      ],
      series: [
        {},
        ...chart.curves.map((curve, number) => ({
          label: curve.name,
          stroke: () => colour(curve.limit ? "--bad" : `--s${number % 8}`),
          width: 1.6,
          dash: curve.limit ? [6, 4] : undefined,
          points: { show: data.times.length < 3 },
        })),
      ],
      hooks: { drawClear: [shade], draw: [ruled, flagged, followed], setCursor: [shown], setScale: [zoomed] },
    };
  }

  function shade(u) {
    for (const each of data.spans) {
      const [from, to] = [u.valToPos(each.begin, "x", true), u.valToPos(each.end, "x", true)];
      const left = Math.max(from, u.bbox.left), right = Math.min(to, u.bbox.left + u.bbox.width);
      if (right <= left) continue;
      u.ctx.save();
      u.ctx.globalAlpha = 0.14;
      u.ctx.fillStyle = colour({ critical: "--bad", notice: "--soft" }[each.kind] ?? "--warn");
      u.ctx.fillRect(left, u.bbox.top, Math.max(right - left, 1), u.bbox.height);
      u.ctx.restore();
    }
  }

  const inColour = (mark) =>
    colour(mark.kind === "restart" ? "--soft" : mark.colour === null ? "--bad" : `--s${mark.colour % 8}`);

  function ruled(u) {
    for (const each of data.marks) {
      const x = u.valToPos(each.at, "x", true);
      if (x < u.bbox.left || x > u.bbox.left + u.bbox.width) continue;
      u.ctx.save();
      u.ctx.strokeStyle = inColour(each);
      u.ctx.setLineDash(each.kind === "restart" ? [3, 3] : []);
      u.ctx.beginPath();
      u.ctx.moveTo(x, u.bbox.top);
      u.ctx.lineTo(x, u.bbox.top + u.bbox.height);
      u.ctx.stroke();
      u.ctx.restore();
    }
  }

  function flagged(u) {
    u.over.querySelectorAll(".flag").forEach((flag) => flag.remove());
    for (const each of data.marks) {
      const x = u.valToPos(each.at, "x");
      if (each.kind === "restart" || x < 0 || x > u.over.clientWidth) continue;
      const flag = document.createElement("a");
      flag.className = "flag";
      flag.href = `#${each.to}`;
      flag.title = each.title;
      flag.textContent = each.label;
      flag.setAttribute("aria-label", `${each.label}: ${each.title}`);
      flag.style.left = `${x}px`;
      flag.style.background = inColour(each);
      flag.addEventListener("mousedown", (event) => event.stopPropagation());
      u.over.append(flag);
    }
  }

  // The attempts as bars, above the charts, show the same part of the run.
  function followed(u) {
    if (u !== plots.values().next().value) return;
    const { min, max } = u.scales.x;
    const place = (at) => (at - min) / (max - min), clipped = (at) => Math.min(Math.max(place(at), 0), 1);
    for (const each of document.querySelectorAll(".timeline [data-at]")) {
      const share = each.localName === "svg" ? place : clipped;  // a picture is cut off, and not squeezed
      const from = Number(each.dataset.at), until = Number(each.dataset.until ?? from);
      each.hidden = until < min || from > max;
      each.style.left = `${share(from) * 100}%`;
      if (each.dataset.until) each.style.width = `${(share(until) - share(from)) * 100}%`;
    }
    const ticks = u.ticks.map(([at, name]) => {
      const tick = document.createElement("span");
      tick.style.left = `${clipped(at) * 100}%`;
      tick.textContent = name;
      return tick;
    });
    for (const clock of document.querySelectorAll(".timeline .clock")) {
      clock.replaceChildren(...ticks.map((tick) => tick.cloneNode(true)));
    }
  }

  // The values under the cursor, or else the last ones.
  function shown(u) {
    const at = u.cursor.idx;
    const chart = u.own;
    if (!chart) return;
    const when = at === null || at === undefined ? null : data.times[at];
    chart.when.textContent = when === null ? "last values" : onClock(when).toLocaleString("sv").slice(data.elapsed ? 11 : 0);
    chart.figures.forEach((figure, number) => {
      const { values } = chart.curves[number];
      const value = when === null ? values.findLast((each) => each !== null) : values[at];
      figure.textContent = value === null || value === undefined ? "" : amount(value, chart.unit);
    });
  }

  const everything = () => document.getElementById("whole");

  function zoomed(u) {
    const { min, max } = u.scales.x, button = everything();
    if (button && min !== null) button.hidden = min <= data.begin && max >= data.end;
  }

  function legend(u, chart, place) {
    const list = document.createElement("ul");
    list.className = "legend live";
    const figures = chart.curves.map((curve, number) => {
      const item = document.createElement("li");
      const button = document.createElement("button");
      const key = document.createElement("span");
      const figure = document.createElement("b");
      button.type = "button";
      button.setAttribute("aria-pressed", "true");
      key.className = `key ${curve.limit ? "limit-key" : `k${number % 8}`}`;
      button.append(key, `${curve.name} `, figure);
      button.addEventListener("click", () => {
        const isOn = button.getAttribute("aria-pressed") === "true";
        button.setAttribute("aria-pressed", String(!isOn));
        u.setSeries(number + 1, { show: !isOn });
      });
      button.addEventListener("pointerenter", () => u.setSeries(number + 1, { focus: true }));
      button.addEventListener("pointerleave", () => u.setSeries(null, { focus: true }));
      item.append(button);
      list.append(item);
      return figure;
    });
    const when = document.createElement("li");
    when.className = "soft";
    list.append(when);
    place.closest("figure").querySelector("h3").after(list);
    u.own = { ...chart, figures, when };
    shown(u);
  }

  function zoom(low, high) {
    const min = Math.max(low, data.begin), max = Math.min(high, data.end);
    for (const u of plots.values()) u.setScale("x", { min, max: Math.max(max, min + 1) });
  }

  function onKey(event, u) {
    const { min, max } = u.scales.x, quarter = (max - min) / 4;
    if (event.key === "0") zoom(data.begin, data.end);
    else if (event.key === "+" || event.key === "=") zoom(min + quarter, max - quarter);
    else if (event.key === "-") zoom(min - 2 * quarter, max + 2 * quarter);
    else if (event.key === "ArrowLeft" || event.key === "ArrowRight") {
      const step = event.key === "ArrowLeft" ? -1 : 1;
      const known = u.cursor.idx ?? (step < 0 ? data.times.length : -1);
      const next = Math.min(Math.max(known + step, 0), data.times.length - 1);
      u.setCursor({ left: u.valToPos(data.times[next], "x"), top: 10 });
    } else return;
    event.preventDefault();
  }

  function draw() {
    for (const place of document.querySelectorAll("[data-chart]")) {
      const chart = data.charts.find((each) => each.key === place.dataset.chart);
      const name = place.closest("figure").querySelector("h3").textContent;
      const u = new uPlot(options(chart, place.clientWidth || 720), columns(chart), place);
      place.tabIndex = 0;
      place.setAttribute("role", "group");
      place.setAttribute("aria-label", `${name}, interactive chart`);
      place.addEventListener("keydown", (event) => onKey(event, u));
      u.over.addEventListener("dblclick", () => zoom(data.begin, data.end));
      legend(u, chart, place);
      plots.set(chart.key, u);
      u.setScale("x", { min: data.begin, max: data.end });  // the run, which begins before its first sample
      new ResizeObserver(() => place.clientWidth && u.setSize({ width: place.clientWidth, height: HEIGHT })).observe(place);
    }
  }

  // -- a run that is going on ---------------------------------------------------------------------------------------

  async function renew() {
    let news;
    try {
      news = await (await fetch("news.json")).json();
    } catch {
      return setTimeout(renew, 10000);  // the server has ended, or is busy
    }
    const before = data;
    const isSame = news.data && news.data.charts.map((each) => each.key).join() === before.charts.map((each) => each.key).join();
    if (!isSame) return location.reload();
    data = news.data;
    for (const [name, content] of Object.entries(news.sections)) {
      const section = document.getElementById(name);
      if (!section) return location.reload();
      if (name !== "charts" && section.innerHTML !== content) section.innerHTML = content;
    }
    for (const chart of data.charts) {
      const u = plots.get(chart.key);
      const { min, max } = u.scales.x;
      const isWhole = min <= before.begin && max >= before.end;
      Object.assign(u.own, chart);
      u.setData(columns(chart), false);
      u.setScale("x", isWhole ? { min: data.begin, max: data.end } : { min, max });
      u.redraw();
      shown(u);
    }
    if (data.going_on) setTimeout(renew, 2000);
  }

  root.classList.add("scripted");
  draw();
  document.addEventListener("click", (event) => event.target === everything() && zoom(data.begin, data.end));
  addEventListener("beforeprint", () => zoom(data.begin, data.end));  // the pictures on paper show everything
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => plots.forEach((u) => u.redraw()));
  if (data.going_on && location.protocol.startsWith("http")) setTimeout(renew, 2000);
})();
