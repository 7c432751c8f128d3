"""The operators of PyTorch that eACGM names, and the functions of libtorch_python.so that they call."""

operators = {
    'TorchAdd': 'add', 'TorchSub': 'sub', 'TorchMul': 'mul', 'TorchMatmul': 'matmul', 'TorchDiv': 'div', 'TorchLinear': 'linear',
    'TorchConv2d': 'conv2d', 'TorchReLU': 'relu', 'TorchSigmoid': 'sigmoid', 'TorchTanh': 'tanh', 'TorchSoftmax': 'softmax',
    'TorchMSELoss': 'mse_loss', 'TorchBCELoss': 'binary_cross_entropy', 'TorchCrossEntropyLoss': 'cross_entropy_loss',
    'TorchConvTranspose2d': 'conv_transpose2d', 'TorchMaxUnpool2d': 'max_unpool2d', 'TorchBatchNorm2d': 'batch_norm',
    'TorchAvgPool2d': 'avg_pool2d', 'TorchMaxPool2d': 'max_pool2d', 'TorchDropout': 'dropout', 'TorchEmbedding': 'embedding',
    'TorchLSTM': 'lstm', 'TorchAdaptiveMaxPool2d': 'adaptive_max_pool2d', 'TorchAdaptiveAvgPool2d': 'adaptive_avg_pool2d',
}  # fmt: skip


def symbol(operator):
    """The file-local function THPVariable_<operator> of torch::autograd, as compilers mangle it."""
    return f'_ZN5torch8autogradL{12 + len(operator)}THPVariable_{operator}EP7_objectS2_S2_'


symbols = {name: symbol(operator) for name, operator in operators.items()}

template = r"""
int <Symbol>Entry(struct pt_regs *ctx) {
    u64 time = bpf_ktime_get_ns();
    bpf_trace_printk("%ld@start@<Name>\n", time);
    return 0;
}

int <Symbol>Exit(struct pt_regs *ctx) {
    u64 time = bpf_ktime_get_ns();
    bpf_trace_printk("%ld@end@<Name>\n", time);
    return 0;
}
"""
text = ''.join(template.replace('<Symbol>', s).replace('<Name>', name) for name, s in symbols.items())
