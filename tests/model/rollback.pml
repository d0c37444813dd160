/* rollback.pml: the journal of a rollback, the router and the fence, with crashes between any two actions.
 *
 * WHAT    Names that begin with d_ are durable (rows of the registry), with m_ in memory (gone with a crash). The daemon
 *         decides to roll the candidate back at any moment, also in the midst of its promotion, carries the journal out
 *         step by step, and after a crash projects rows to memory before its listener opens. The router admits requests,
 *         looks pages up and ends requests in between. told is what the world outside was told; nobody takes it back.
 * HOLDS   (1) No request is admitted to the candidate after the intent is durable or told.
 *         (2) The previous route is authoritative only when the candidate is fenced, in its row and in memory, and nothing
 *             of it is in flight.
 *         (3) A look-up under the candidate while the previous route is authoritative finds the fence.
 *         (4) A rollback that was told ends (the claim "ends", under weak fairness).
 * MUTANTS FENCE_AFTER_RESTORE: steps 4 and 5 change places. INTENT_AFTER_FLAG: the world is told when the flag in memory
 *         is set, before TX-1. LISTENER_FIRST: the listener opens before the rows are projected. Each must fail.
 *
 * SPDX-License-Identifier: Apache-2.0 */

#ifndef CRASHES
#define CRASHES 3
#endif
#define IN_FLIGHT_MAX 2

#define ROUTE_CANARY 0   /* the candidate has its share */
#define ROUTE_PROMOTED 1 /* the candidate is stable */
#define ROUTE_PREVIOUS 2

byte d_receipts;      /* receipts of the rollback: 0 none, 1 intent ... 7 complete */
byte d_promotion; /* 0 none, 1 open, 2 switched, 3 complete */
bool d_fenced;
byte d_route = ROUTE_CANARY;

bool m_up;     /* the listener is open */
bool m_barred; /* no admission to the candidate */
bool m_fenced;
byte m_route;
byte in_flight;

bool told;
byte crashes;

#define candidate_routed (m_route != ROUTE_PREVIOUS)

inline project()
{
    m_barred = (d_receipts > 0);
    m_fenced = d_fenced;
    m_route = d_route;
}

/* All that was in memory is gone; the listener is shut, its requests with it. */
inline crash()
{
    atomic {
        crashes++;
        m_up = false;
        m_barred = false;
        m_fenced = false;
        m_route = ROUTE_CANARY;
        in_flight = 0;
    }
}

inline check()
{
    assert(!(m_up && m_route == ROUTE_PREVIOUS) || (d_fenced && m_fenced && in_flight == 0));
    assert(d_route != ROUTE_PREVIOUS || d_fenced);
}

proctype daemon()
{
start:
#ifdef LISTENER_FIRST
    m_up = true;
    project();
#else
    atomic { project(); m_up = true };
#endif
    do
    :: crashes < CRASHES -> crash(); goto start

    /* The promotion, as long as no rollback has pre-empted it. */
    :: d_receipts == 0 && d_promotion == 0 -> d_promotion = 1
    :: d_receipts == 0 && d_promotion == 1 -> atomic { d_promotion = 2; d_route = ROUTE_PROMOTED }; m_route = d_route
    :: d_receipts == 0 && d_promotion == 2 -> m_route = d_route; d_promotion = 3

    /* The decision: a breach, or an operator. The flag stops admission at once; TX-1 makes it so for good. */
    :: d_receipts == 0 && !m_barred ->
        m_barred = true;
#ifdef INTENT_AFTER_FLAG
        told = true;
#endif
        if
        :: crashes < CRASHES -> crash(); goto start
        :: true
        fi;
        d_receipts = 1;
        if
        :: crashes < CRASHES -> crash(); goto start
        :: true
        fi;
        told = true

    /* After a crash between TX-1 and the telling the intent is found and carried out all the same. */
    :: d_receipts == 1 -> d_receipts = 2
    /* Draining waits, or its time is over and what is left is aborted. */
    :: d_receipts == 2 -> in_flight = 0; d_receipts = 3
#ifdef FENCE_AFTER_RESTORE
    :: d_receipts == 3 -> m_route = ROUTE_PREVIOUS; check(); atomic { d_route = ROUTE_PREVIOUS; d_receipts = 4 }; check()
    :: d_receipts == 4 -> d_fenced = true; m_fenced = true; d_receipts = 5
#else
    :: d_receipts == 3 ->
        d_fenced = true; /* the row, before the table */
        if
        :: crashes < CRASHES -> crash(); goto start
        :: true
        fi;
        m_fenced = true;
        d_receipts = 4
    :: d_receipts == 4 ->
        m_route = ROUTE_PREVIOUS;
        check();
        if
        :: crashes < CRASHES -> crash(); goto start
        :: true
        fi;
        atomic { d_route = ROUTE_PREVIOUS; d_receipts = 5 };
        check()
#endif
    :: d_receipts == 5 -> check(); d_receipts = 6
    :: d_receipts == 6 -> d_receipts = 7
    :: d_receipts == 7 -> check(); break
    od
}

proctype router()
{
    do
    /* Admission: the decision and the count are one action of the engine thread. */
    :: atomic { m_up && candidate_routed && !m_barred && in_flight < IN_FLIGHT_MAX ->
           in_flight++;
           assert(!told);
           assert(d_receipts == 0) }
    /* A look-up under the candidate's namespace, whoever makes it. */
    :: atomic { m_up -> assert(m_route != ROUTE_PREVIOUS || m_fenced) }
    :: atomic { in_flight > 0 -> in_flight-- }
    :: d_receipts == 7 && in_flight == 0 -> break
    od
}

init
{
    atomic { run daemon(); run router() }
}

ltl ends { [] (told -> <> (d_receipts == 7)) }
