// The page: the model it came with, another one that is opened, the one that is taught, and how they are kept.
const pristine = `<!DOCTYPE html>\n${document.documentElement.outerHTML}`, empty_model = $("model").outerHTML;
const base = { name: "", bytes: null, given: "" }, taught = { name: "model.onnx", bytes: null, given: "" };
let engine = null, engine_ready = false, opened = null;

// Has the engine open the page's model or the taught one, and says what it is.
async function use(which) {
  const model = which === "taught" ? taught : base;
  const bytes = model.bytes.slice();
  const facts = await engine.call("open", { bytes, preprocess: model.given }, [bytes.buffer]);
  opened = model;
  $("preprocess").value = facts.preprocess;
  $("facts").textContent = `${facts.classes} classes, ${(facts.parameters / 1e6).toFixed(2)} million weights, ${(model.bytes.length / 1e6).toFixed(2)} MB. ` +
    `How pictures are prepared is ${{ given: "as you said", model: "said by the model", assumed: "not said by the model, and assumed", "8-bit input": "told by its 8-bit input" }[facts.source]}. ` +
    `It runs by graft ${facts.version} with ${facts.isa} instructions on one thread.`;
  $("about").textContent = `${model.name}: ${facts.labels.length ? `${facts.labels.slice(0, 8).join(", ")}${facts.labels.length > 8 ? `, and ${facts.labels.length - 8} more` : ""}` : `${facts.classes} classes without names`}`;
  $("about").className = "soft";
}
async function open_base(name, bytes) {
  const before = { ...base };
  Object.assign(base, { name, bytes, given: "" });
  try {
    await use("base");
  } catch (e) {
    Object.assign(base, before);
    if (base.bytes) await use("base");
    throw e;
  }
  Object.assign(taught, { bytes: null, given: "" });
  $("which-base").checked = true;
  $("choice").hidden = $("result").hidden = true;
  engine_ready = true;
  collection_changed();
  await look_again();
}
function fail(e) {
  $("about").className = "bad";
  $("about").textContent = e.message;
}

for (const which of ["taught", "base"])
  $(`which-${which}`).addEventListener("change", () => use(which).then(look_again).catch(fail));
$("apply").addEventListener("click", async () => {
  const model = opened, before = model.given;
  model.given = $("preprocess").value.trim();
  try {
    await use(model === taught ? "taught" : "base");
    await look_again();
  } catch (e) {
    model.given = before;
    await use(model === taught ? "taught" : "base");
    show_failure(e);
  }
});
async function open_file(file) {
  try {
    await open_base(file.name, new Uint8Array(await file.arrayBuffer()));
  } catch (e) {
    show_failure(e);
  }
}
$("open").addEventListener("change", e => { if (e.target.files[0]) open_file(e.target.files[0]); e.target.value = ""; });

function save(name, parts, type) {
  const link = made("a", { href: URL.createObjectURL(new Blob(parts, { type })), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
}
$("save").addEventListener("click", () => save("model.onnx", [taught.bytes], "application/octet-stream"));
$("save-page").addEventListener("click", async () => {
  const element = made("script", { type: "application/octet-stream", id: "model", "data-name": "model.onnx" });
  element.textContent = await packed(taught.bytes);
  const at = pristine.indexOf(empty_model);
  save("model.html", [pristine.slice(0, at), element.outerHTML, pristine.slice(at + empty_model.length)], "text/html");
});

(async () => {
  for (const id of ["class 1", "class 2"]) add_box(id);
  try {
    engine = new Engine(await WebAssembly.compile(await unpacked($("engine").textContent)));
    engine.told = told;
    engine.offered = bytes => { run.best = bytes; };
    engine.broke = () => opened && use(opened === taught ? "taught" : "base").catch(fail);
    const text = $("model").textContent.trim();
    if (text) await open_base($("model").dataset.name, await unpacked(text));
    else $("about").textContent = "This page has no model yet: open one (.onnx) below \"The model\", or make a page with one by graft export MODEL --html FILE.";
  } catch (e) {
    fail(e);
  }
  document.documentElement.dataset.ready = "yes";
})();
