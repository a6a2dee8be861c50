// Training: what the engine tells of it, and what came of it.
const run = { going: false, best: null, history: [], names: new Map(), began: 0 };
const busy = () => run.going;

const percent = share => `${(100 * share).toFixed(1)} %`;
function time_text(seconds) {
  const s = Math.max(1, Math.round(seconds));
  return s < 60 ? `${s} s` : s < 3600 ? `${Math.floor(s / 60)} min ${s % 60} s` : `${Math.floor(s / 3600)} h ${Math.floor(s % 3600 / 60)} min`;
}

// Two curves over the epochs: of the pictures that are held out, and of those that are learnt from.
function chart(title, held, learnt, most, shown) {
  const width = 300, height = 140, left = 46, bottom = 20, top = 8, last = Math.max(1, held.length - 1);
  const line = (values, name) => `<polyline class="${name}" points="${values.map((v, i) => `${left + (width - left - 8) * i / last},${top + (height - top - bottom) * (1 - Math.min(1, v / most))}`).join(" ")}"/>`;
  const figure = made("figure", {});
  const text = `${title}: held out ${shown(held[held.length - 1])} (line), learnt from ${shown(learnt[learnt.length - 1])} (dashes), epoch ${held.length}`;
  figure.innerHTML = `<svg viewBox="0 0 ${width} ${height}" role="img" aria-label="${text}"><path class="axis" d="M${left} ${top}V${height - bottom}H${width - 8}"/>` +
    `<text x="${left - 4}" y="${top + 8}" text-anchor="end">${shown(most)}</text><text x="${left - 4}" y="${height - bottom}" text-anchor="end">0</text>` +
    `<text x="${width - 8}" y="${height - 5}" text-anchor="end">epoch ${held.length}</text>${line(learnt, "learnt")}${line(held, "held")}</svg>`;
  figure.append(made("figcaption", {}, text));
  return figure;
}
function draw_charts() {
  const of = key => run.history.map(r => r[key]), losses = [...of("loss"), ...of("training_loss")];
  $("charts").replaceChildren(chart("Accuracy", of("top1"), of("training_top1"), 1, v => `${Math.round(100 * v)} %`),
                              chart("Loss", of("loss"), of("training_loss"), Math.max(...losses), v => v.toFixed(2)));
}

function told(t) {
  if (t.what === "pictures") {
    if (!run.history.length && !run.stepped) {
      $("progress").removeAttribute("value");  // of how many rounds is not known
      $("status").textContent = `Looking at the pictures: ${t.done} of ${t.of}.`;
    }
  } else if (t.what === "step") {
    run.stepped = true;
    $("progress").value = (t.epoch + t.step / t.steps) / t.epochs;
    const whole = t.head_alone ? "; the last layer alone so far, the rest joins later and takes longer" : "";
    $("status").textContent = `Epoch ${t.epoch + 1} of ${t.epochs}, ${percent(t.top1)} right, loss ${t.loss.toFixed(3)}, about ${time_text(t.seconds_left)} left${whole}.`;
  } else if (t.what === "epoch") {
    run.history.push(t);
    draw_charts();
  } else if (t.what === "note" || t.what === "warning") {
    $("notes").append(made("li", {}, t.text));
  }
}

// Every picture under a name of its own, so that the engine's answers find it again.
function unique(name) {
  let made_up = name;
  for (let i = 2; run.names.has(made_up); ++i) made_up = `${name} (${i})`;
  return made_up;
}
const stopped = () => Object.assign(new Error("stopped"), { stopped: true });
async function hand_over() {
  const classes = boxes.map(class_name);
  await engine.call("collect", { classes });
  run.names.clear();
  for (const [label, box] of boxes.entries())
    for (const one of box.pictures) {
      const name = unique(`${classes[label]}/${one.file}`), picture = await contents(one.blob, name);
      if (run.stopped) throw stopped();
      run.names.set(name, one);
      await engine.call("add", { label, picture }, moved(picture));
    }
}
function wrong_names() {
  const names = boxes.map(class_name);
  if (names.some(n => !n)) return "Every class needs a name.";
  const twice = names.find((n, i) => names.indexOf(n) !== i);
  return twice ? `Two classes are called "${twice}".` : "";
}
function going(on) {
  run.going = on;
  $("stop").hidden = !on;
  $("train").hidden = on;
  $("progress").hidden = !on;
  for (const id of ["which-taught", "which-base", "apply", "open"]) $(id).disabled = on;
  collection_changed();
}

// The last layer alone is through its epochs in no time, and gains by more of them; a number that was typed in stays.
const usual_epochs = { trunk: "50", none: "10" };
for (const choice of document.querySelectorAll("[name=learns]"))
  choice.addEventListener("change", () => { if (Object.values(usual_epochs).includes($("epochs").value)) $("epochs").value = usual_epochs[choice.value]; });

$("train").addEventListener("click", async () => {
  $("train-error").textContent = wrong_names();
  if ($("train-error").textContent) return;
  Object.assign(run, { best: null, history: [], stepped: false, stopped: false, classes: boxes.map(class_name), began: performance.now() });
  $("notes").replaceChildren();
  $("charts").replaceChildren();
  $("result").hidden = true;
  $("progress").value = 0;
  $("status").textContent = "Handing the pictures over.";
  going(true);
  $("stop").focus();
  try {
    await use("base");
    $("which-base").checked = true;
    await hand_over();
    const options = { epochs: Math.max(1, Math.round(Number($("epochs").value))) || 1, freeze: document.querySelector("[name=learns]:checked").value, preprocess: base.given };
    if (Number($("rate").value) > 0) options.learning_rate = Number($("rate").value);
    await finished(await engine.call("teach", { options }));
  } catch (e) {
    if (e.stopped) await finished(null).catch(fail);
    else $("train-error").textContent = e.message;
  }
  going(false);
});
// The engine hears nothing while it computes: it is ended, and what was the best so far is here already.
$("stop").addEventListener("click", () => {
  run.stopped = true;
  engine.restart(stopped());
});

async function finished(told) {
  going(false);
  if (!run.best) {
    $("status").textContent = "Stopped before the first epoch was over; nothing was learnt.";
    return use("base");
  }
  const epochs = run.history.length, top1 = told ? told.top1 : Math.max(...run.history.map(r => r.top1));
  $("status").textContent = `${told ? "Done" : "Stopped"} after ${epochs} epochs and ${time_text((performance.now() - run.began) / 1e3)}.`;
  taught.bytes = run.best;
  $("choice").hidden = $("result").hidden = false;
  $("score").textContent = `${percent(top1)} of the pictures that were held out are named right`;
  const copies = told?.copies ? ` ${told.copies} were copies of others, and are kept on one side.` : "";
  $("score-detail").textContent = told ? `${told.training} pictures were learnt from, ${told.held_out.length} held out; the best epoch was ${told.best_epoch + 1}.${copies}`
                                       : "This is the best network of the epochs that were over.";
  $("held-out").replaceChildren(...(told?.held_out ?? []).sort((a, b) => (a.label === a.predicted) - (b.label === b.predicted)).map(held_out));
  $("score").focus();
  $("which-taught").checked = true;
  await use("taught");
  await look_again();
}
function held_out(p) {
  const right = p.label === p.predicted, name = run.classes[p.label], answer = `${run.classes[p.predicted]} ${Math.round(100 * p.probability)}\u00a0%`;
  const picture = made("img", { src: URL.createObjectURL(run.names.get(p.name).blob), alt: "" });  // its own: the box may give its up
  picture.addEventListener("load", () => URL.revokeObjectURL(picture.src));
  return made("figure", { class: right ? "right" : "wrong" }, picture, made("figcaption", {}, right ? answer : `${name}, taken for ${answer}`));
}
