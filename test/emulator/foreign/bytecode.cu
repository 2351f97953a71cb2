// A stack machine: a switch of twenty cases in a loop, a stack in local memory, lanes that disagree.
extern "C" __global__ void bytecode(const unsigned char *programs, const int *inputs, int *results,
                                    int length) {
    int stack[16], top = 0;
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    const unsigned char *code = programs + t * length;
    for (int pc = 0; pc < length;) {
        unsigned char op = code[pc++];
        int a, b;
        switch (op) {
        case 0: results[t] = top > 0 ? stack[top - 1] : -1; return;
        case 1: stack[top++] = inputs[t]; break;
        case 2: stack[top++] = (signed char)code[pc++]; break;
        case 3: b = stack[--top]; a = stack[--top]; stack[top++] = a + b; break;
        case 4: b = stack[--top]; a = stack[--top]; stack[top++] = a - b; break;
        case 5: b = stack[--top]; a = stack[--top]; stack[top++] = a * b; break;
        case 6: b = stack[--top]; a = stack[--top]; stack[top++] = b ? a / b : 0; break;
        case 7: b = stack[--top]; a = stack[--top]; stack[top++] = b ? a % b : 0; break;
        case 8: stack[top - 1] = -stack[top - 1]; break;
        case 9: stack[top - 1] = ~stack[top - 1]; break;
        case 10: b = stack[--top]; a = stack[--top]; stack[top++] = a & b; break;
        case 11: b = stack[--top]; a = stack[--top]; stack[top++] = a | b; break;
        case 12: b = stack[--top]; a = stack[--top]; stack[top++] = a ^ b; break;
        case 13: a = stack[top - 1]; stack[top++] = a; break;
        case 14: a = stack[top - 1]; stack[top - 1] = stack[top - 2]; stack[top - 2] = a; break;
        case 15: b = stack[--top] & 31; stack[top - 1] = (int)((unsigned)stack[top - 1] << b); break;
        case 16: b = stack[--top] & 31; stack[top - 1] >>= b; break;
        case 17: top--; break;
        case 18: a = stack[--top]; pc += a > 0 ? code[pc] : 1; break;
        case 19: stack[top - 1] = __popc(stack[top - 1]); break;
        default: results[t] = -1000 - op; return;
        }
    }
    results[t] = -2000;
}
