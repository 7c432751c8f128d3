/* Reports of jobs: the list, one job, several compared; what they show is in report.js. */
import { get, peer } from './api.js'
import { h, known, put, table, percent, bytes, count, time, none } from './dom.js'
import { comparedPanels, jobCards, jobPanels, list, long, map, number, points, text } from './report.js'

const EVERY = 5000 /* ms between two readings of a list or of a job that runs */

const stateOf = r => h('span', { class: `state ${r.stale ? 'unreachable' : r.state === 'running' ? 'active' : r.state === 'finished' ? 'ok' : 'stopped'}` }, r.stale ? 'no recent report' : r.state)
export const jobLink = r => h('a', { href: `#/job/${r.id}` }, r.job)
export const score = v => (known(v) ? points(v, 100, number(v, 0)) : none)
const signal = () => { let due = 0; return { soon: () => { due = 0 }, due: () => { if (Date.now() < due) return false; due = Date.now() + EVERY; return true } } }

/* --- the list --- */

export function reports() {
	if (peer === 'agent') return { refresh: async () => {}, element: null } // reports are with the head
	const rows = h('div'), more = h('button', { type: 'button', onclick: () => { shown += 50; again() } }, 'Show more')
	const user = h('input', { type: 'search', oninput: () => again(), size: 12 }), name = h('input', { type: 'search', placeholder: 'train*', oninput: () => again(), size: 12 })
	const state = h('select', { onchange: () => again() }, [['', 'any state'], ['running', 'running'], ['finished', 'finished'], ['partial', 'partial']].map(([v, t]) => h('option', { value: v }, t)))
	const compare = h('button', { type: 'button', disabled: true, onclick: () => { location.hash = `#/job-compare?ids=${[...chosen].join(',')}` } }, 'Compare the chosen')
	const all = h('button', { type: 'button', onclick: () => { location.hash = `#/job-compare?${filters()}` } }, 'Compare all of these')
	const chosen = new Set(), turn = signal()
	let shown = 50

	const filters = () => new URLSearchParams(Object.entries({ user: user.value.trim(), name: name.value.trim(), state: state.value }).filter(([, v]) => v)).toString()
	const again = () => { turn.soon(); refresh().catch(() => {}) }
	const pick = r => h('input', { type: 'checkbox', 'aria-label': `Compare ${r.job}, report ${r.id}`, checked: chosen.has(r.id), onchange: e => {
		if (e.target.checked) chosen.add(r.id)
		else chosen.delete(r.id)
		compare.disabled = chosen.size < 2
	} })

	async function refresh() {
		if (!turn.due()) return
		const found = await get(`/api/v1/job-reports?limit=${Math.min(shown, 2000)}&${filters()}`)
		put(rows, table(found.reports, [
			['Compare', pick], ['Job', jobLink, '', r => r.job], ['Name', r => r.name || none, 'cut hide-small', r => r.name], ['User', r => r.user || none, '', r => r.user], ['Node', r => r.node_name, 'hide-small', r => r.node_name], ['State', stateOf, '', r => r.state],
			['Class', r => r.class || none, '', r => r.class], ['Score', r => score(r.score), '', r => r.score], ['Measured from', r => time(r.start_time), '', r => r.start_time], ['For', r => long(r.duration_seconds), 'n', r => r.duration_seconds],
		], filters() ? 'No report matches.' : 'No report has come yet. Agents with a head send them; so does gpuscope job --head.'))
		more.hidden = !found.next || shown >= 2000
		all.disabled = found.reports.length < 2
	}
	return {
		refresh,
		element: h('section.panel', {}, h('div.row', {}, h('h2', {}, 'Reports'), h('label', {}, 'User', user), h('label', {}, 'Name of the job', name), h('label', {}, 'State', state), compare, all), rows, more),
	}
}

/* --- one job --- */

export function job(id) {
	const title = h('h1', {}, 'Job'), where = h('p.note'), cards = h('div.cards'), body = h('div'), others = h('div'), turn = signal()
	let last = null

	function show(r) {
		const j = map(list(r.document.jobs)[0]), s = map(r.document.monitoring_session)
		put(title, `Job ${r.job} `, stateOf(r))
		put(where, [text(j.job_name), r.user, r.source === 'agent' ? h('a', { href: `#/node/${r.node}` }, r.node_name) : r.node_name, text(j.partition) && `partition ${text(j.partition)}`, text(j.account) && `account ${text(j.account)}`, `measured ${time(r.start_time)} to ${time(r.end_time)} by gpuscope ${r.source}`,
			text(s.lost) && `lost: ${text(s.lost)}`].filter(Boolean).flatMap((x, i) => (i ? [' · ', x] : [x])).reduce((line, x) => { line.append(x); return line }, h('span')))
		put(cards, ...jobCards(j))
		put(body, ...jobPanels(j))
	}

	async function refresh() {
		if (last && last.state !== 'running') return true
		if (!turn.due()) return false
		const r = await get(`/api/v1/job-reports/${encodeURIComponent(id)}`)
		if (!last || r.received !== last.received || r.stale !== last.stale) show(r)
		last = r
		const same = (await get(`/api/v1/job-reports?limit=200&job=${encodeURIComponent(r.job)}&kind=${encodeURIComponent(r.kind)}`)).reports.filter(x => x.id !== r.id)
		const runs = new URLSearchParams(Object.entries({ name: r.name, user: r.user }).filter(([, v]) => v))
		put(others, h('h2', {}, 'Other reports of this job'), table(same, [['Node', x => x.node_name], ['Report', jobLink], ['State', stateOf], ['Class', x => x.class], ['Score', x => score(x.score)], ['Measured from', x => time(x.start_time)]], 'There are none from other nodes or times.'),
			r.name ? h('p', {}, h('a', { href: `#/job-compare?${runs}` }, 'Compare all runs of this name')) : '')
	}
	return { title: 'Job', refresh, close() {}, element: h('div', {}, title, where, cards, body, h('section.panel', {}, others), h('p', {}, h('a', { href: '#/work' }, 'All jobs'))) }
}

/* --- several compared --- */

/* "NODE#NUMBER" names a report. */
const fileLink = x => { const [, node, id] = /^(.*)#(\d+)$/.exec(x.file || '') || []; return id ? h('a', { href: `#/job/${id}` }, x.job_id, h('span.note', {}, ` on ${node}`)) : x.job_id }

export function compareJobs(query) {
	const said = h('p.note'), body = h('div')
	let done = false

	async function refresh() { // once: reports that are compared have ended, but for those that were chosen
		if (done) return
		const c = await get(`/api/v1/job-reports/compare?${query}`)
		done = true
		said.textContent = query.get('ids') ? `${c.summary.total_jobs} chosen reports` : [`The newest reports${query.get('state') ? '' : ' of ended jobs'}`, query.get('user') && `of ${query.get('user')}`, query.get('name') && `named ${query.get('name')}`].filter(Boolean).join(', ')
		put(body, ...comparedPanels(c, fileLink))
	}
	return { title: 'Jobs compared', refresh, close() {}, element: h('div', {}, h('h1', {}, 'Jobs compared'), said, body, h('p', {}, h('a', { href: '#/work' }, 'All jobs'))) }
}
