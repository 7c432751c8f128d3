/* A comparison of recorded runs as a page (gpuscope report --compare -o new.html): how much longer a step takes, how sure that is, and where
 * the difference lies. Names in it are those of a traced program: they are only ever shown as text. */
import { h, known, table, count, none } from './dom.js'
import { list, map, maps, text, number, ns, word, panel, card, nameTables } from './report.js'

const KINDS = [['whole_run', 'Whole run: its pace-setting thread'], ['account', 'Wall-clock account'], ['operator', 'Operators'], ['function', 'Calls'], ['python_function', 'Python functions, running and waiting'], ['line', 'Lines of them'], ['other_threads', 'Python functions of other threads'],
	['gpu', 'GPUs, by their own times'], ['kernel', 'Kernels on the GPU'], ['stream', 'Streams of GPUs']]
const GPU = ['gpu', 'kernel', 'stream']
const VERDICTS = { slower: 'Slower', faster: 'Faster', no_difference_shown: 'No difference shown', not_known: 'Not known' }

const signed = v => (known(v) ? (v < 0 ? `−${ns(-v)}` : `+${ns(v)}`) : none)
const spread = v => (known(v) ? (v < 0.5 ? '0 ns' : ns(v)) : none)
const zero = v => (v === 0 ? '0 ns' : ns(v))
const perStep = v => (known(v) && v > 0 ? number(v, v < 10 ? 2 : 0) : none)
const ofDifference = v => (known(v) ? `${number(100 * v, 0)} %` : none)
const whole = c => map(c.whole_run)
const shown = c => c.verdict === 'slower' || c.verdict === 'faster'

/* The difference and its interval on a line with the base at its middle; the figures stand beside it. */
function interval(c) {
	const of = known(c.difference_percent) ? c : whole(c), mean = of.difference_percent, half = of.plus_minus_percent
	if (!known(mean) || !known(half)) return null
	const most = 1.2 * Math.max(Math.abs(mean) + half, 1), at = v => `${50 + (50 * Math.max(-most, Math.min(most, v))) / most}%`
	const words = `${mean < 0 ? '−' : '+'}${number(Math.abs(mean))} % ± ${number(half)}`
	return h('div', {}, h('div.interval', { role: 'img', 'aria-label': `it takes ${words} of the base` }, h('i.zero'), h('i.span', { style: { left: at(mean - half), width: `${(50 * Math.min(2 * half, 2 * most)) / most}%` } }), h('i.mean', { style: { left: at(mean) } })),
		h('div.axis', {}, h('span', {}, `−${number(most)} %`), h('span', {}, 'as the base'), h('span', {}, `+${number(most)} %`)))
}

function runs(c) {
	const rows = [['base', c.base], ['new', c.changed]].flatMap(([side, s]) => maps(map(s).runs).map(r => ({ side, ...r })))
	return table(rows, [word('Side', r => r.side), word('Recording', r => r.file), ['Steps', r => count(r.steps), 'n', r => r.steps], ['With GPU time', r => count(r.gpu_time_steps), 'n', r => r.gpu_time_steps], word('A step begins with', r => r.step_begins_with), word('Thread', r => r.thread), word('Machine', r => r.host), word('Command', r => r.command)], '')
}

function places(c, kind, title) {
	const rows = maps(c.items).filter(i => i.kind === kind && (shown(c) || kind === 'whole_run' || GPU.includes(kind)) && (i.base_ns > 0 || i.changed_ns > 0))
	const counted = rows.some(i => i.base_calls > 0 || i.changed_calls > 0), f = (name, key, write) => [name, r => write(r[key]), 'n', r => r[key]]
	return panel(title, rows, [word('Where', r => r.name), f('Base', 'base_ns', zero), f('New', 'changed_ns', zero), ['Change', r => h('span', { class: Math.abs(r.difference_ns) > r.plus_minus_ns ? 'sure' : '' }, known(r.difference_ns) && Math.abs(r.difference_ns) < 0.5 ? '0 ns' : signed(r.difference_ns)), 'n', r => r.difference_ns], f('±', 'plus_minus_ns', spread), f('Share', 'share', ofDifference),
		...(counted ? [f('Count', 'base_calls', perStep), f('New count', 'changed_calls', perStep)] : [])], kind === 'gpu' ? 'Of a step. Busy: at least one operation ran; the count is of stretches, of idle time that of gaps.' : kind === 'whole_run' ? 'Of the whole run.' : 'Of a step.')
}

function comparison(c, i, all) {
	const base = map(c.base), changed = map(c.changed), w = whole(c), step = s => (known(s.step_ns) ? `${ns(s.step_ns)} ± ${ns(s.step_plus_minus_ns)}` : none), run = v => (known(v) ? ns(v) : none), of = known(w.base_ns) ? w : c, files = maps(changed.runs).map(r => text(r.file)).join(', ')
	return [
		all.length > 1 ? h('h1', {}, h('bdi', {}, files)) : null,
		h('section.panel.why', {}, h('h2', {}, VERDICTS[of.verdict] || none), h('p', {}, h('bdi', {}, text(c.text))), interval(c), list(c.notes).map(n => h('p.note', {}, text(n)))),
		h('div.cards', {}, ...(of === w ? [card(run(w.base_ns), 'a run of the base', 'long'), card(run(w.changed_ns), 'a run now', 'long')] : [card(step(base), 'a step of the base', 'long'), card(step(changed), 'a step now', 'long')]),
			card(known(of.difference_percent) ? `${of.difference_percent < 0 ? '−' : '+'}${number(Math.abs(of.difference_percent))} %${known(of.plus_minus_percent) ? ` ± ${number(of.plus_minus_percent)}` : ''}` : none, 'the difference, 95 % interval', 'long')),
		h('section.panel', {}, h('h2', {}, 'Runs'), runs(c)),
		...KINDS.map(([kind, title]) => places(c, kind, title)),
	]
}

/* Draws the document of report.html. */
export function drawRunComparison(main, d) {
	const all = maps(d.comparisons)
	document.title = 'gpuscope: comparison of runs'
	main.replaceChildren(...[all.length > 1 ? null : h('h1', {}, 'Comparison of runs'), all.flatMap(comparison), h('section.panel', {}, h('h2', {}, 'How it was compared'), h('p', {}, text(d.method)))].flat().filter(Boolean))
	nameTables(main)
}
