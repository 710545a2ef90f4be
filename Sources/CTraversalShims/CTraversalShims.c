#include "CTraversalShims.h"
