// The look of a report: light and dark, wide and narrow.
#pragma once

#include "../config.hpp"

GRAFT_BEGIN_NAMESPACE
namespace detail {

inline const char* report_style() {
    return R"css(
:root{color-scheme:light dark;--page:#f6f6f4;--card:#fff;--text:#1d2125;--dim:#667079;--line:#e3e5e8;--c1:#2166c4;--c2:#bf4d17;--c3:#1f7a55;
--c4:#7a4fc0;--on:#fff;--note:#fff5dc}
@media(prefers-color-scheme:dark){:root{--page:#121416;--card:#1b1e21;--text:#e7e9eb;--dim:#98a2ab;--line:#30363b;--c1:#6aa8f7;--c2:#f58d55;
--c3:#5cc79b;--c4:#b795f2;--on:#0d0f11;--note:#332b14}}
*{box-sizing:border-box}
body{margin:0 auto;padding:clamp(12px,3vw,36px);max-width:1120px;background:var(--page);color:var(--text);
font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",sans-serif}
h1{font-size:clamp(22px,4vw,30px);line-height:1.2;margin:0 0 6px;letter-spacing:-.01em;overflow-wrap:anywhere}
h2{font-size:19px;margin:0 0 10px;letter-spacing:-.005em}
h3{font-size:15px;margin:0 0 6px}
p{margin:0 0 12px}
header,section{background:var(--card);border:1px solid var(--line);border-radius:14px;padding:clamp(14px,2.4vw,26px);margin-bottom:16px}
.facts{color:var(--dim);display:flex;flex-wrap:wrap;gap:2px 20px}
.facts span{color:var(--text);overflow-wrap:anywhere}
.facts i{font-style:normal;color:var(--dim)}
pre{margin:0 0 14px;padding:9px 12px;background:var(--page);border-radius:8px;
font:13px/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;white-space:pre-wrap;overflow-wrap:anywhere}
.note{overflow-wrap:anywhere;background:var(--note);border-radius:8px;padding:8px 12px}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(136px,1fr));gap:10px}
.tile{background:var(--page);border-radius:10px;padding:10px 14px}
.tile b{display:block;font-size:21px;line-height:1.25;font-weight:650;font-variant-numeric:tabular-nums}
.tile:first-child b{color:var(--c3)}
.tile span{color:var(--dim);font-size:13px}
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,430px),1fr));gap:18px 26px}
figure{margin:0}
.chart figcaption{font-weight:600}
.chart svg{display:block;width:100%;height:auto}
.legend{display:flex;flex-wrap:wrap;gap:2px 16px;margin:0 0 2px;color:var(--dim);font-size:13px}
.key{display:inline-block;width:14px;height:4px;border-radius:2px;margin-right:6px;vertical-align:3px;background:var(--c)}
.key.faint{opacity:.4}
.key.dash{height:0;border-top:2px dashed var(--dim);border-radius:0}
.c1{--c:var(--c1)}.c2{--c:var(--c2)}.c3{--c:var(--c3)}.c4{--c:var(--c4)}
.line{fill:none;stroke:var(--c);stroke-width:2;stroke-linejoin:round;stroke-linecap:round}
.line.faint{stroke-width:1;opacity:.35}
.dot{fill:var(--c);stroke:var(--card);stroke-width:1.5}
.grid{stroke:var(--line);stroke-width:1}
.mark{stroke:var(--dim);stroke-width:1;stroke-dasharray:3 4}
.ideal{stroke:var(--dim);stroke-width:1.5;stroke-dasharray:5 5;fill:none}
.bin{fill:var(--c1)}
svg text{fill:var(--dim);font-size:12px;font-family:inherit;font-variant-numeric:tabular-nums}
svg .name{fill:var(--text);font-size:12.5px}
.matrix{display:block;width:100%;height:auto}
.matrix .never{fill:var(--page)}.matrix .right{fill:var(--c3)}.matrix .wrong{fill:var(--c2)}
svg .count{fill:var(--text);font-size:13px}svg .count.on{fill:var(--on)}
.split{display:flex;flex-wrap:wrap;gap:20px 36px;align-items:flex-start}
.split>*{flex:1 1 320px;min-width:0}
.split>.wide{flex-basis:100%}
.scroll{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-size:14px;font-variant-numeric:tabular-nums}
th,td{text-align:right;padding:5px 10px;border-bottom:1px solid var(--line);white-space:nowrap}
th{color:var(--dim);font-weight:500}
tr:last-child td,tr:last-child th{border-bottom:0}
.text{text-align:left}
td.text{white-space:normal;min-width:6.5em;overflow-wrap:anywhere}
.best td{font-weight:650}
td.bar{text-align:left;min-width:112px;width:23%}
.bar b{display:inline-block;width:4em;font-weight:500}
.bar span{display:inline-block;width:calc(100% - 4.2em);height:8px;border-radius:4px;background:var(--page);vertical-align:1px}
.bar i{display:block;height:100%;border-radius:4px;background:var(--c);max-width:100%}
.epochs th,.epochs td{padding:3px 6px}
.epochs{font-size:13px}
.charts details{margin:0}
.settings th{width:34%}
.timing td.text{width:45%}
.pictures{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(45%,150px),1fr));gap:16px}
.pictures figure{min-width:0}
.pictures img{display:block;width:100%;height:auto;aspect-ratio:1;object-fit:contain;background:var(--page);border-radius:10px}
.pictures .tiny{image-rendering:pixelated}
.pictures figcaption{font-size:13.5px;line-height:1.35;padding-top:6px;overflow-wrap:anywhere}
.pictures small{display:block;color:var(--dim);font-size:12px;margin-top:2px;overflow:hidden;text-overflow:ellipsis;white-space:nowrap}
.remedy{display:block;margin-top:4px}
.command{display:block;margin:4px 0;padding:4px 8px;background:var(--page);border-radius:6px;overflow-wrap:anywhere;
font:12px/1.45 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}
.copy{font:inherit;font-size:13px;padding:2px 10px;color:var(--text);background:var(--card);border:1px solid var(--dim);border-radius:6px;cursor:pointer}
.enlarge{display:block;width:100%;padding:0;border:0;background:none;border-radius:10px;cursor:zoom-in}
.copy:focus-visible,.enlarge:focus-visible,summary:focus-visible,.scroll:focus-visible{outline:3px solid var(--c1);outline-offset:2px}
.pairs{grid-template-columns:repeat(auto-fill,minmax(min(100%,300px),1fr))}
.two{display:grid;grid-template-columns:1fr 1fr;gap:6px}
dialog{padding:14px;max-width:94vw;color:var(--text);background:var(--card);border:1px solid var(--line);border-radius:14px}
dialog::backdrop{background:#000a}
dialog img{display:block;width:min(86vw,640px);max-height:78vh;object-fit:contain}
dialog .tiny{image-rendering:pixelated}
dialog p{margin:10px 0;max-width:min(86vw,640px);overflow-wrap:anywhere}
.good{color:var(--c3)}.bad{color:var(--c2)}
details{margin-top:14px}
summary{cursor:pointer;color:var(--dim)}
@media(max-width:640px){.classes .bar span{display:none}.classes td.bar,.classes .bar b{min-width:0;width:auto}th,td{padding:5px 7px}}
@media print{body{background:#fff}header,section{break-inside:avoid}}
)css";
}

}  // namespace detail
GRAFT_END_NAMESPACE
