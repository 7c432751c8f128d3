/* The name of Engine::execute(), from PyTorch 1.12 on; for C and assembly. */
#ifndef GS_COMPANION_OPS_EXECUTE_H
#define GS_COMPANION_OPS_EXECUTE_H

#define OPS_EXECUTE                                                                                \
	_ZN5torch8autograd6Engine7executeERKSt6vectorINS0_4EdgeESaIS3_EERKS2_IN2at6TensorESaIS9_EEbbbS7_

#endif
