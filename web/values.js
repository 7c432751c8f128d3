/* All values of a GPU, in groups, with names and units made from their keys ("sm_clock_hertz": "SM clock", MHz). */
import { h, table, percent, watts, celsius, bytes, count, duration, energy, none } from './dom.js'

const capitals = { sm: 'SM', gpu: 'GPU', pcie: 'PCIe', nvlink: 'NVLink', ecc: 'ECC', dram: 'DRAM', sram: 'SRAM', bar1: 'BAR1', jpeg: 'JPEG', ofa: 'OFA', fp64: 'FP64', fp32: 'FP32', fp16: 'FP16', sw: 'software', hw: 'hardware', tx: 'sent', rx: 'received', crc: 'CRC', max: 'maximum', min: 'minimum', utilization: 'utilisation' }

/* [end of the key, how its values are written]; the first that fits. */
const units = [
	['_bytes_per_second', v => `${bytes(Math.round(v))}/s`], ['_bytes', bytes], ['_ratio', percent], ['_celsius', celsius], ['_watts', watts], ['_joules', energy],
	['_hertz', v => `${Math.round(v / 1e6)} MHz`], ['_seconds', duration], ['_mask', v => reasons(v)],
]

/* [title, which keys]; the first that fits. */
const groups = [
	['Throttling', /^throttle|^performance/], ['Errors', /error|remap|retired|replay|discard|overrun|malformed|recover|^ecc/], ['PCIe', /^pcie/], ['NVLink', /^nvlink/], ['Clocks', /clock/], ['Temperature', /temperature|^fan/],
	['Power', /power|energy/], ['Memory', /^memory_(?!utilization)|^bar1/], ['Activity', /_ratio$/], ['Other', /./],
]

/* NVML's bits of what holds the clocks (nvml.h, nvmlClocksEventReason...). */
const reasonBits = ['idle', 'clocks set by the user', 'power limit', 'hardware slowdown', 'sync boost', 'heat (software)', 'heat (hardware)', 'power brake', 'display clocks']

function reasons(mask) {
	const found = reasonBits.filter((_, bit) => mask & (1 << bit))
	return found.length ? found.join(', ') : mask ? String(mask) : 'none'
}

function nameOf(key) {
	const [end] = units.find(([tail]) => key.endsWith(tail)) || [''], words = key.slice(0, key.length - end.length).split('_').map(word => capitals[word] || word)
	return words.join(' ').replace(/^[a-z]/, c => c.toUpperCase())
}

function written(key, v) {
	if (v === null || v === undefined) return none
	const [, unit] = units.find(([tail]) => key.endsWith(tail)) || [null, count]
	return unit(v)
}

export function valueGroups(values) {
	const rows = Object.entries(values).map(([key, v]) => ({ key, v, group: groups.find(([, fits]) => fits.test(key))[0] }))
	if (!rows.length) return [h('p.empty', {}, 'No values.')]
	return groups.map(([title]) => [title, rows.filter(r => r.group === title)]).filter(([, found]) => found.length).map(([title, found]) => h('section', { 'aria-label': title }, h('h3', {}, title),
		table(found, [['Value', r => h('span', { title: r.key }, nameOf(r.key)), 'wrap'], ['Now', r => written(r.key, r.v), 'n']], '')))
}
