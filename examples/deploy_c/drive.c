/* A policy in a process of its own: reads observations from a pipe and answers with actions.

   One line each: "reset" at the start of an episode, which is not answered; else the numbers of an
   observation, and behind them the last reward if the policy reads it. The answer is an action, or
   "refused" and a code. */

#include "policy.h"

#include <stdio.h>
#include <stdlib.h>

int main(void) {
    static resel_state state;
    static char line[32 * (RESEL_OBSERVATIONS + 2)];
    float read[RESEL_OBSERVATIONS + 1];
#if RESEL_DISCRETE
    int actions[RESEL_ACTIONS];
#else
    float actions[RESEL_ACTIONS];
#endif
    while (fgets(line, sizeof line, stdin)) {
        char *at = line, *end;
        int count, code, i;
        if (!strncmp(line, "reset", 5)) {
            resel_reset(&state);
            continue;
        }
        for (count = 0; count <= RESEL_OBSERVATIONS; count++, at = end) {
            read[count] = strtof(at, &end);
            if (end == at) break;
        }
        if (count < RESEL_OBSERVATIONS + RESEL_READS_REWARD) {
            printf("refused: %d numbers\n", count);
        } else {
#if RESEL_READS_REWARD
            code = resel_step(&state, read, read[RESEL_OBSERVATIONS], actions);
#else
            code = resel_step(&state, read, actions);
#endif
            if (code) {
                printf("refused %d", code);
            } else {
                for (i = 0; i < RESEL_ACTIONS; i++) printf("%.9g ", (double)actions[i]);
            }
            printf("\n");
        }
        fflush(stdout);
    }
    return 0;
}
