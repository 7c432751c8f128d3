/* Steps of the ranks of jobs over nodes side by side, as the head has them now: a table of ranks for each communicator, and its slowest steps. */
import { h, table, count, percent, ago, none } from './dom.js'
import { ns } from './report.js'

const length = s => (s === null ? none : s < 0 ? `-${ns(-s * 1e9)}` : ns(s * 1e9))

const rankColumns = [
	['Rank', r => r.rank, 'n', r => r.rank], ['Node', r => r.node, '', r => r.node], ['Process', r => r.pid, 'n hide-small', r => r.pid], ['Steps', r => count(r.steps), 'n', r => r.steps],
	['Median', r => length(r.median_seconds), 'n', r => r.median_seconds], ['95 %', r => length(r.p95_seconds), 'n', r => r.p95_seconds], ['Late', r => length(r.late_seconds), 'n', r => r.late_seconds],
	['In collectives', r => percent(r.inside_ratio), 'n hide-small', r => r.inside_ratio], ['Slowest in', r => `${count(r.slowest_steps)} of ${count(r.compared_steps)}`, 'n', r => r.slowest_steps],
]

function slowest(s) {
	if (s.slowest === 'rank') return `rank ${s.rank} (${s.node}), ${length(s.late_seconds)} after the median rank`
	if (s.slowest === 'none') return 'no rank stands out'
	return s.clock_error_seconds === null ? 'not known' : `not known: clocks may be ${length(s.clock_error_seconds)} apart`
}

const slowColumns = [
	['Began', s => ago(s.start_time), ''], ['From collective', s => count(s.collective), 'n'], ['Step', s => length(s.median_seconds), 'n'], ['Spread', s => length(s.spread_seconds), 'n'], ['Slowest rank', slowest, 'wrap'],
]

function communicator(s) {
	return h('div', {}, h('h3', {}, s.job ? `Job ${s.job}, communicator ${s.communicator}` : `Communicator ${s.communicator}`),
		h('p.note', {}, `Steps of ${s.ranks_with_steps} of ${s.ranks} ranks, ${count(s.compared_steps)} compared; spread between ranks ${length(s.spread_median_seconds)} (median), ${length(s.spread_p95_seconds)} (95 %).`),
		table(s.listed, rankColumns, 'No rank has steps.'), s.listed.length < s.ranks_with_steps ? h('p.note', {}, `${s.listed.length} of ${s.ranks_with_steps} ranks`) : '',
		h('h4', {}, 'The slowest steps'), table(s.slowest, slowColumns, 'No step of several ranks is known yet.'))
}

/* steps: as of GET /api/v1/steps. */
export const stepTables = steps => (steps.length ? steps.map(communicator) : [h('p.empty', {}, 'No steps. They are known where gpuscope trace --head traces the ranks of a job.')])
