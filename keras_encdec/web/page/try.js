// The page for trying out a model. Text from the model or the user is inserted as text, never as HTML.
"use strict";

const DEBOUNCE = 150, SLOW = 600;  // milliseconds
// Colours for values from 0, the shade of the background, to 1. They also differ in grey, and for the colour-blind.
const LIGHT = ["ffffd9", "edf8b1", "c7e9b4", "7fcdbb", "41b6c4", "1d91c0", "225ea8", "253494", "081d58"]
  .map((hex) => [0, 2, 4].map((place) => parseInt(hex.slice(place, place + 2), 16)));
const DARK = LIGHT.toReversed(), dark = matchMedia("(prefers-color-scheme: dark)");
const PAGE = [...crypto.getRandomValues(new Uint8Array(8))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
const byId = (id) => document.getElementById(id);

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function colour(share) {
  const colours = dark.matches ? DARK : LIGHT, place = Math.min(Math.max(share, 0), 1) * (colours.length - 1);
  const below = Math.min(Math.floor(place), colours.length - 2);
  return colours[below].map((value, i) => Math.round(value + (place - below) * (colours[below + 1][i] - value)));
}

// The colour of letters on a colour: black or white, whichever contrasts more.
function inkOn(shades) {
  const [red, green, blue] = shades.map((value) => (value / 255) ** 2.2);
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.18 ? "#000000" : "#ffffff";
}

const logProb = (value) => value.toFixed(2).replace("-", "−");

function probability(value) {
  if (value >= 0.0995) return value.toFixed(2);
  if (value >= 0.001) return value.toPrecision(2);
  if (value === 0) return "< 10⁻³⁰⁰";
  const [digits, exponent] = value.toExponential(1).split("e-");
  return `${digits} × 10⁻${[...exponent].map((digit) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[digit]).join("")}`;
}

function threeDigits(perplexity) {
  if (perplexity >= 1e6) return "> 1,000,000";
  const rounded = Number(perplexity.toPrecision(3));
  // From 1,000 on, toPrecision would write an exponent.
  return rounded < 1000 ? perplexity.toPrecision(3) : rounded.toLocaleString("en");
}

const spread = (target) => `p = ${probability(target.probability)}, ln p = ${logProb(target.log_prob)} nats`;

// A newer request to an endpoint replaces an older one: the older one is aborted, and its answer is ignored.
class Question {
  constructor(name, show) {
    [this.name, this.show] = [name, show];
    this.section = byId(name);
    this.answer = this.section.querySelector(".answer");
    this.newest = 0;
  }

  drop() {
    this.newest += 1;
    this.aborting?.abort();
    this.answer.setAttribute("aria-busy", "false");
  }

  clear() {
    this.drop();
    this.answer.replaceChildren();
  }

  async ask(body) {
    this.drop();
    const number = this.newest;
    this.aborting = new AbortController();
    this.answer.setAttribute("aria-busy", "true");
    const slow = setTimeout(() => {
      if (this.name === "translate" && number === this.newest)
        say("Computing: the first phrase of a new length takes longer.");
    }, SLOW);
    try {
      const response = await fetch(`api/${this.name}`, {
        method: "POST", headers: {"Content-Type": "application/json"}, signal: this.aborting.signal,
        body: JSON.stringify({...body, page: PAGE}),
      });
      const answer = await response.json();
      if (number !== this.newest) return;
      if (response.ok) this.show(answer, this.answer, body);
      else if (response.status === 429) {
        say(answer.error);
        later(1000 * Number(response.headers.get("Retry-After") ?? 1));
      } else if (response.status !== 409) this.fail(answer.error);
    } catch (error) {
      if (number !== this.newest || error.name === "AbortError") return;
      this.fail("The server does not answer; is it still running?");
    } finally {
      clearTimeout(slow);
      if (number === this.newest) this.answer.setAttribute("aria-busy", "false");
    }
  }

  fail(sentence) {
    this.answer.replaceChildren(element("p", {class: "failed"}, sentence));
    if (this.name === "translate") say(sentence);
  }
}

function say(sentence) {
  const status = byId("status");
  if (status.textContent !== sentence) status.textContent = sentence;
}

function tokens(list, label) {
  return element("ol", {class: "tokens", "aria-label": label}, ...list.map(({word, probability: share, log_prob}) => {
    const bar = element("span", {class: "bar", "aria-hidden": "true"});
    bar.style.setProperty("--share", share);
    const each = element("li", {title: `p = ${probability(share)}, ln p = ${logProb(log_prob)} nats`},
      element("bdi", {}, word), bar, element("small", {}, probability(share)));
    return each;
  }));
}

function table(heads, rows) {
  const head = heads.map(([text, kind]) => element("th", {scope: "col", class: kind}, text));
  const body = rows.map((row) => element("tr", {}, ...row.map((cell, i) => element("td", {class: heads[i][1]}, cell))));
  return element("table", {}, element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...body));
}

// The user can select the target whose attention is shown: one of the best, or that of the scored pair.
const attended = {targets: [], pair: null, source: []};

function showAttended() {
  const select = byId("attended"), chosen = select.value;
  const choices = [...attended.targets.map((target, i) => [`best-${i}`, `${i + 1}. ${target.text}`])];
  if (attended.pair) choices.push(["pair", `The pair: ${attended.pair.text}`]);
  select.replaceChildren(...choices.map(([value, text]) => element("option", {value}, text || "(empty)")));
  select.value = choices.some(([value]) => value === chosen) ? chosen : choices[0]?.[0] ?? "";
  drawAttention();
}

function drawAttention() {
  const value = byId("attended").value, answer = byId("attention").querySelector(".answer");
  const target = value === "pair" ? attended.pair : attended.targets[Number(value.slice(5))];
  if (!target?.attention) return answer.replaceChildren();
  const words = [...attended.source.map(({word}) => word), "(end)"];
  const head = words.map((word) => element("th", {scope: "col"}, element("span", {}, element("bdi", {}, word))));
  const rows = target.tokens.map(({word}, row) => element("tr", {}, element("th", {scope: "row"}, element("bdi", {}, word)),
    ...target.attention[row].map((weight) => {
      const cell = element("td", {title: weight.toFixed(3)}, weight >= 0.005 ? weight.toFixed(2) : "0");
      cell.style.setProperty("--cell", `rgb(${colour(weight)})`);
      cell.style.setProperty("--on-cell", inkOn(colour(weight)));
      return cell;
    })));
  const made = element("table", {class: "attention"},
    element("thead", {}, element("tr", {}, element("th", {scope: "col", class: "soft"}, "target ↓ source →"), ...head)),
    element("tbody", {}, ...rows));
  answer.replaceChildren(element("div", {class: "scrolling", tabindex: "0", role: "region", "aria-label":
    "Attention weights"}, made));
}

function strip(values) {
  const canvas = element("canvas", {width: values.length, height: 1, "aria-hidden": "true"});
  const context = canvas.getContext("2d"), image = context.createImageData(values.length, 1);
  values.forEach((value, i) => image.data.set([...colour(value), 255], 4 * i));
  context.putImageData(image, 0, 0);
  return canvas;
}

function gateTable(caption, words, rows, order, head, numbers) {
  const body = words.map((word, i) => element("tr", {}, element("th", {scope: "row"}, element("bdi", {}, word)),
    element("td", {}, strip(order.map((unit) => rows[i][unit]))), element("td", {class: "number"}, numbers[i])));
  const heads = [["word", ""], ["units", ""], [head, "number"]];
  return element("table", {}, element("caption", {}, caption), element("thead", {}, element("tr", {},
    ...heads.map(([text, kind]) => element("th", {scope: "col", class: kind}, text)))), element("tbody", {}, ...body));
}

function choose(text) {
  byId("source").value = text;
  update();
}

const QUESTIONS = {
  translate(answer, place, {source}) {
    const best = answer.targets[0];
    place.replaceChildren(element("ol", {class: "targets"}, ...answer.targets.map((target) => element("li", {},
      element("div", {class: "head"}, element("bdi", {class: "text"}, target.text || "(empty)"),
        element("span", {class: "numbers"}, spread(target))),
      tokens(target.tokens, "Tokens and their probabilities")))));
    const unknown = answer.source.filter(({known}) => !known), read = byId("read");
    read.hidden = !unknown.length;
    read.replaceChildren("The model does not know the underlined words: ", ...answer.source.flatMap(({word, known}) =>
      [element("bdi", known ? {} : {class: "unknown"}, word), " "]));
    say(`Best of ${answer.targets.length} targets: ${best.text || "(empty)"}, p = ${probability(best.probability)}.`);
    Object.assign(attended, {targets: answer.targets, source: answer.source});
    showAttended();
  },
  sample(answer, place) {
    const shown = answer.targets.length;
    place.replaceChildren(element("p", {class: "soft"}, `${answer.samples} samples, ${answer.distinct} distinct` +
      (shown < answer.distinct ? `; the ${shown} drawn most often.` : ".")),
    element("ol", {class: "targets"}, ...answer.targets.map((target) => element("li", {}, element("div", {class: "head"},
      element("bdi", {}, target.text || "(empty)"), element("span", {class: "numbers"}, element("strong", {},
        `${target.count} ×`), ` ${spread(target)}`))))));
  },
  score({target, perplexity}, place) {
    const rows = [["ln p", `${logProb(target.log_prob)} nats`], ["p", probability(target.probability)],
      ["perplexity per token", threeDigits(perplexity)]];
    const unknown = target.words.filter(({known}) => !known).map(({word}) => word);
    place.replaceChildren(element("dl", {class: "numbers-of-pair"}, ...rows.flatMap(([name, value]) =>
      [element("dt", {}, name), element("dd", {}, value)])), tokens(target.tokens, "Tokens and their probabilities"),
      ...(unknown.length ? [element("p", {class: "notice"}, "The model does not know ", element("bdi", {class: "unknown"},
        unknown.join(" ")), "; the score is that of unknown words in their place.")] : []));
    attended.pair = target;
    showAttended();
  },
  neighbours(answer, place) {
    byId("neighbours-note").textContent = `Of ${answer.phrases.toLocaleString("en")} phrases, those whose encoder ` +
      "vectors are most similar.";
    place.replaceChildren(table([["phrase", "phrase"], ["cosine similarity", "number"]], answer.neighbours.map(
      ({text, similarity}) => {
        const button = element("button", {type: "button", dir: "auto"}, text);
        button.addEventListener("click", () => choose(text));
        return [button, similarity.toFixed(3).replace("-", "−")];
      })));
  },
  gates(answer, place) {
    const means = answer.chosen.map((_, unit) => answer.update.reduce((sum, row) => sum + row[unit], 0));
    const order = means.map((_, unit) => unit).sort((a, b) => means[b] - means[a]);
    place.replaceChildren(element("div", {class: "gates"},
      gateTable("Update gate z (1: a unit keeps its state)", answer.words, answer.update, order, "mean\u00a0z",
        answer.mean_update.map((mean) => mean.toFixed(2))),
      gateTable("Reset gate r (0: a unit forgets what came before)", answer.words, answer.reset, order, "r\u00a0<\u00a00.5",
        answer.share_reset.map((share) => `${Math.round(100 * share)} %`))));
  },
};
const questions = {}, timers = {};

// Sends requests shortly after the last key: all of them for a new source, only the score for a new target.
function later(milliseconds, field = "source") {
  clearTimeout(timers[field]);
  timers[field] = setTimeout(field === "source" ? update : askScore, milliseconds);
}

function askScore() {
  const source = byId("source").value, target = byId("target").value;
  if (source.trim() && target.trim()) return questions.score.ask({source, target});
  questions.score.clear();
  attended.pair = null;
  return showAttended();
}

function update() {
  clearTimeout(timers.source);
  const source = byId("source").value;
  if (!source.trim()) {
    for (const question of Object.values(questions)) question.clear();
    Object.assign(attended, {targets: [], pair: null, source: []});
    showAttended();
    byId("read").hidden = true;
    return say("Type a phrase.");
  }
  for (const [name, question] of Object.entries(questions)) if (name !== "score") question.ask({source});
  return askScore();
}

function scale(place) {
  place.replaceChildren("0", strip(Array.from({length: 101}, (_, i) => i / 100)), "1");
}

async function start() {
  byId("ask").addEventListener("submit", (event) => event.preventDefault());
  let model;
  try {
    const response = await fetch("api/model");
    model = await response.json();
    if (!response.ok) throw new Error(model.error);
  } catch (error) {
    return say(`The server did not describe its model: ${error.message}`);
  }
  const {reads, predicts} = model, count = (number) => number.toLocaleString("en");
  byId("facts").textContent = `${model.name}: ${model.class}, p(${predicts} | ${reads}), ${count(model.weights)} weights, ` +
    `${count(model.source_words)} words to read, ${count(model.target_words)} to predict; keras-encdec ${model.version}.`;
  if (reads === "target") {
    byId("source-label").textContent = "Target phrase, which this model reads";
    byId("target-label").textContent = "Source phrase for the target above";
    byId("translate-title").textContent = "Best sources";
  }
  for (const name of Object.keys(QUESTIONS)) {
    if (`has_${name}` in model && !model[`has_${name}`]) continue;
    byId(name).hidden = false;
    questions[name] = new Question(name, QUESTIONS[name]);
  }
  byId("attention").hidden = !model.has_attention;
  document.querySelectorAll(".scale").forEach(scale);
  byId("attended").addEventListener("change", drawAttention);
  dark.addEventListener("change", () => {
    document.querySelectorAll(".scale").forEach(scale);
    update();
  });
  for (const field of ["source", "target"]) {
    byId(field).maxLength = model.max_characters;
    byId(field).addEventListener("input", () => later(DEBOUNCE, field));
  }
  byId("examples").append(...model.examples.map((text) => {
    const button = element("button", {type: "button", dir: "auto"}, text);
    button.addEventListener("click", () => choose(text));
    return button;
  }));
  byId("examples").hidden = !model.examples.length;
  if (!byId("source").value && model.examples.length) byId("source").value = model.examples[0];
  return update();
}

start();
